import { defined } from '../../../shared/base/collections.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import { runId as runIdSchema } from '../../../shared/base/ids.ts';
import { auditKind } from '../../../shared/contract/audit.ts';
import { formatUsd } from '../../../shared/contract/plain/amounts.ts';
import type { AuditQuery, AuditView } from '../../client/audit/audit.ts';
import type { Millrace } from '../../client/millrace.ts';
import { examples, exitCodes, printJson, type AddCommand, shownJson } from '../cli.ts';
import { wholeNumber } from '../options/arguments.ts';
import { asJson, choice, command, text, value, valueOr } from '../options/command.ts';
import { openClient } from '../options/open-client.ts';
import { since, timeForms } from '../options/when.ts';
import { listTable, nameColumn, textColumn } from '../show/list-table.ts';
import { dateTime, dim } from '../show/paint.ts';
import { countOf, oneLine } from '../../../shared/base/words.ts';

export const addAudit: AddCommand = (program, act) => {
  const audit = program
    .command('audit')
    .description('Show who decided, changed, paused or erased what, and what rules and guards stopped.')
    .addHelpText('after', examples('millrace audit --since 1d', 'millrace audit export > audit.jsonl'));
  for (const add of [list, exported]) add(audit, act);
};

const filters = [
  choice('--kind <kind>', 'only entries of this kind', auditKind.options),
  text('--run <run>', 'only entries about this run'),
  value('--since <time>', 'only what was then or later', since),
] as const;

const list = command('list', {
  description: 'List the audit log, newest first.',
  options: [...filters, valueOr('--limit <n>', 'at most so many', wholeNumber(1, 100_000), 20), asJson],
  isDefault: true,
  help:
    examples('millrace audit --since 1d', 'millrace audit --kind decision --json') +
    `\n\nA time is ${timeForms}.\nDays, and times without a zone, are UTC. Entries are kept for 30 days, also of runs that are gone.`,
  work: async (cli, { kind, run, since: from, limit, json }) => {
    await using mill = openClient(cli);
    const query = defined({ kind, run: await wholeId(mill, run), since: from });
    const found: AuditView[] = [];
    let after: string | undefined;
    do {
      cli.interrupted.throwIfAborted();
      const asked: AuditQuery = { ...query, order: 'newest', limit: Math.min(500, limit - found.length) };
      const { entries, next } = await mill.audit(defined({ ...asked, after }));
      found.push(...entries);
      after = next;
    } while (after !== undefined && found.length < limit);
    if (json) return printJson(cli, found);
    if (found.length > 0) cli.stdout.write(listTable(columns, found.map(rowOf), cli.stdout));
    else cli.stderr.write('There are no such entries.\n');
    if (after !== undefined) cli.stderr.write(`${dim(cli.stderr, `There may be more: --limit ${limit * 2}`)}\n`);
    return exitCodes.ok;
  },
});

const exported = command('export', {
  description: 'Print the audit log, oldest first, one JSON document a line.',
  options: [
    ...filters,
    text('--after-entry <id>', 'only what came behind this entry: the `id` of the last line that you have'),
  ],
  help: examples(
    'millrace audit export > audit.jsonl',
    'millrace audit export --after-entry 1764000000000-0 >> audit.jsonl',
  ),
  work: async (cli, { kind, run, since: from, afterEntry: after }) => {
    await using mill = openClient(cli);
    const query = defined({ kind, run: await wholeId(mill, run), since: from, after });
    for await (const entry of mill.auditEntries(query)) {
      cli.interrupted.throwIfAborted();
      cli.stdout.write(shownJson(entry));
    }
    return exitCodes.ok;
  },
});

/** The run of an entry may be gone: its whole id needs no run. */
async function wholeId(mill: Millrace, run: string | undefined): Promise<string | undefined> {
  const isWhole = run === undefined || runIdSchema.safeParse(run).success;
  return isWhole ? run : await mill.findRunId(run);
}

const columns = [nameColumn('AT (UTC)'), nameColumn('KIND'), nameColumn('BY'), nameColumn('RUN'), textColumn('WHAT')];
const maxCell = 160;

function rowOf(entry: AuditView): string[] {
  const by = 'by' in entry ? (entry.by ?? '') : '';
  const run = 'runId' in entry ? entry.runId : '';
  return [dateTime(entry.at), entry.kind, by, run, whatOf(entry)].map((cell) => oneLine(cell, maxCell));
}

function whatOf(entry: AuditView): string {
  switch (entry.kind) {
    case 'flow':
      return `${entry.decision} ${entry.toolName} by ${entry.rule}`;
    case 'leak':
      return `${entry.decision} a leak (${entry.vector})`;
    case 'denial':
      return `denied ${entry.subagentName ?? entry.toolName ?? entry.subject}${entry.ruleId === undefined ? '' : ` by ${entry.ruleId}`}`;
    case 'decision':
      return `${entry.verdict} ${entry.toolName ?? entry.toolCallId ?? 'money'}${entry.edited ? ', edited' : ''}`;
    case 'budget': {
      const amount = formatUsd(entry.microcents);
      return entry.change === 'set'
        ? `set ${entry.scope} ${entry.accountId} to ${amount}`
        : `added ${amount} to ${entry.scope} ${entry.accountId}`;
    }
    case 'erasure':
      return `erased ${countOf(entry.runs, 'run')} and ${countOf(entry.threads, 'thread')}, receipt ${entry.receiptId}`;
    case 'keys':
      return [entry.change, entry.key, ...(entry.scopes ?? [])].join(' ');
    case 'pause':
      return `${entry.change} ${entry.batchId}`;
    default:
      return assertNever(entry);
  }
}
