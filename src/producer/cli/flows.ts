import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { runId as runIdSchema } from '../../shared/base/ids.ts';
import { flowRule } from '../../shared/contract/flow.ts';
import type { FlowReport } from '../client/flows/flow-report.ts';
import { flowKind, foundDecision, rulesOf, type FlowsQuery, type FlowView } from '../client/flows/flows.ts';
import type { Millrace } from '../client/millrace.ts';
import {
  collect,
  examples,
  exitCodes,
  printJson,
  pause,
  unlessAway,
  type AddCommand,
  type Cli,
  type ExitCode,
  shownJson,
} from './cli.ts';
import { wholeNumber } from './options/arguments.ts';
import { asJson, choice, command, flag, text, value, valueOr, type ValuesOf } from './options/command.ts';
import { openClient } from './options/open-client.ts';
import { since, timeForms, until } from './options/when.ts';
import { listTable, nameColumn, numberColumn, textColumn } from './show/list-table.ts';
import { dateTime, dim } from './show/paint.ts';
import { count, countOf, oneLine } from '../../shared/base/words.ts';

export const addFlows: AddCommand = (program, act) => {
  const flows = program
    .command('flows')
    .description('Show what guards found in runs: which calls a data-flow policy flagged or stopped.')
    .addHelpText('after', examples('millrace flows --decision blocked --since 1d', 'millrace flows report'));
  for (const add of [list, report]) add(flows, act);
};

const listOptions = [
  choice('--decision <decision>', 'only what was decided so', foundDecision.options),
  choice('--rule <rule>', 'only calls with a finding by this rule', flowRule.options),
  choice('--kind <kind>', 'only flows, or only leaks between agents', flowKind.options),
  text('--tool <name>', 'only calls of this tool'),
  text('--agent <id>', 'only runs of this agent'),
  text('--run <run>', 'only of this run'),
  value('--since <time>', 'only what was found then or later', since),
  value('--until <time>', 'only what was found before; a day is included', until),
  valueOr('--limit <n>', 'at most so many', wholeNumber(1, 100_000), 20),
  flag('--follow', 'go on, and print what comes'),
  flag('--json', 'print one JSON document; with --follow one line for each'),
];
type ListOptions = ValuesOf<typeof listOptions>;

const list = command('list', {
  description: 'List what guards found, newest first. It names things and shows no value.',
  options: listOptions,
  isDefault: true,
  help:
    examples(
      'millrace flows --since 1d',
      'millrace flows --tool send_mail --rule untrusted-value --json',
      'millrace flows --decision blocked --follow',
    ) +
    `\n\nA time is ${timeForms}.\nDays, and times without a zone, are UTC. Entries are kept for 30 days, also of runs that are gone.`,
  work: async (cli, asked) => {
    if (asked.follow && asked.until !== undefined)
      throw new RunError('validation', '--follow shows what comes: it has no --until');
    await using mill = openClient(cli);
    const query = await queryOf(mill, asked);
    let newest = '0-0';
    const { found, cursor } = await collect(cli, asked.limit, async (range) => {
      const page = await mill.flows({ ...query, ...range });
      if (range.cursor === undefined) newest = page.newest;
      return { items: page.flows, cursor: page.cursor };
    });
    if (asked.follow) return await follow(cli, mill, { query, json: asked.json, shown: found, after: newest });
    if (asked.json) return printJson(cli, found);
    if (found.length > 0) cli.stdout.write(listTable(columns, found.map(rowOf), cli.stdout));
    else cli.stderr.write('Nothing was found.\n');
    if (cursor !== undefined) cli.stderr.write(`${dim(cli.stderr, `There may be more: --limit ${asked.limit * 2}`)}\n`);
    return exitCodes.ok;
  },
});

/** The run of an entry may be gone: its whole id needs no run. */
async function queryOf(mill: Millrace, asked: ListOptions): Promise<FlowsQuery> {
  const { decision, rule, kind, tool, agent, since: from, until: to } = asked;
  const isWhole = asked.run === undefined || runIdSchema.safeParse(asked.run).success;
  const run = isWhole ? asked.run : await mill.findRunId(asked.run ?? '');
  return defined({ decision, rule, kind, tool, agent, run, since: from, until: to });
}

const columns = [
  nameColumn('FOUND (UTC)'),
  nameColumn('RUN'),
  nameColumn('AGENT'),
  nameColumn('TOOL'),
  textColumn('ARGUMENT'),
  textColumn('SOURCE'),
  nameColumn('RULE'),
  nameColumn('DECISION'),
];
const maxCell = 120;

function rowOf(entry: FlowView): string[] {
  const { at, runId, agent = '', decision } = entry;
  const head = [dateTime(at), runId, agent];
  if (entry.kind === 'leak') return [...head, '', '', '', `leak: ${entry.vector}`, decision].map(cell);
  const names = (all: readonly (string | undefined)[]) =>
    [...new Set(all.filter((name) => name !== undefined))].join(', ');
  return [
    ...head,
    entry.toolName,
    names(entry.findings.map(({ argument }) => argument)),
    names(entry.findings.map(({ source }) => source?.name)),
    names(rulesOf(entry)),
    entry.by === undefined ? decision : `${decision} by ${entry.by}`,
  ].map(cell);
}

/** A model chooses names of tools and arguments, too. */
function cell(name: string): string {
  return oneLine(name, maxCell);
}

interface Following {
  readonly query: FlowsQuery;
  readonly json: true | undefined;
  readonly shown: readonly FlowView[];
  readonly after: string;
}

/** Between two reads: no message says that an entry has come. */
const lookMs = 1_000;

/** Ends only by an interrupt. Oldest first, so that what is new comes last. */
async function follow(cli: Cli, mill: Millrace, { query, json, shown, after }: Following): Promise<ExitCode> {
  const { stdout, stderr, interrupted } = cli;
  const show = (entries: readonly FlowView[]) => {
    for (const entry of entries.toReversed())
      stdout.write(
        json
          ? shownJson(entry)
          : `${rowOf(entry)
              .filter((part) => part !== '')
              .join('  ')}\n`,
      );
  };
  stderr.write(`${dim(stderr, 'Following what guards find; Ctrl-C ends it.')}\n`);
  show(shown);
  let last = after;
  const showNew = async () => {
    let newest: string | undefined;
    const { found } = await collect(cli, Infinity, async (range) => {
      const page = await mill.flows({ ...query, ...range, after: last });
      newest ??= page.newest;
      return { items: page.flows, cursor: page.cursor };
    });
    show(found);
    last = newest ?? last;
  };
  for (;;) {
    await pause(lookMs, interrupted);
    if (interrupted.aborted) return exitCodes.interrupted;
    await showNew().catch(unlessAway);
  }
}

const report = command('report', {
  description: 'Count by tool what guards found, and say what `enforce` would have stopped.',
  options: [value('--since <time>', 'only what was found then or later (default: 7d)', since), asJson],
  help:
    examples('millrace flows report', 'millrace flows report --since yesterday --json') +
    `\n\nA time is ${timeForms}, of the last 30 days.\nDays, and times without a zone, are UTC.`,
  work: async (cli, { since: from, json }) => {
    await using mill = openClient(cli);
    const found = await mill.flowReport(defined({ since: from }));
    if (json) return printJson(cli, found);
    if (found.tools.length > 0) cli.stdout.write(listTable(reportColumns, found.tools.map(toolRow), cli.stdout));
    cli.stdout.write(`${conclusionOf(found)}\n`);
    for (const note of notesOn(found)) cli.stderr.write(`${dim(cli.stderr, note)}\n`);
    return exitCodes.ok;
  },
});

const reportColumns = [
  nameColumn('TOOL'),
  ...['FLAGGED', 'BLOCKED', 'ASKED', 'GRANTED', 'DENIED', 'DECLASSIFIED', 'RUNS'].map(numberColumn),
  textColumn('RULES'),
  textColumn('ARGUMENTS'),
  textColumn('SOURCES'),
  nameColumn('LAST (UTC)'),
];

function toolRow(row: FlowReport['tools'][number]): string[] {
  const { flagged, blocked, asked, granted, denied, declassified, runs } = row;
  const texts = [row.rules, row.arguments, row.sources].map((names) => cell(names.join(', ')));
  return [
    cell(row.tool),
    ...[flagged, blocked, asked, granted, denied, declassified, runs].map(count),
    ...texts,
    dateTime(row.lastAt),
  ];
}

function conclusionOf({ since: from, tools, totals: { flagged, blocked } }: FlowReport): string {
  const would = tools.filter((row) => row.flagged > 0);
  const stopped = blocked === 0 ? '' : ` It did stop ${calls(blocked)}.`;
  const what = flagged === 0 ? 'no call that ran in `shadow`' : `${calls(flagged)} of ${countOf(would.length, 'tool')}`;
  return `Since ${dateTime(from)} (UTC) \`enforce\` would have stopped ${what}.${stopped}`;
}

function calls(number: number): string {
  return countOf(number, 'call');
}

function* notesOn({ leaks, partial, reachesBackTo }: FlowReport): Generator<string> {
  if (leaks > 0) yield `Leaks between agents: ${count(leaks)}. \`millrace flows --kind leak\` lists them.`;
  if (partial)
    yield 'There is more than was counted, or older entries have been removed to make room: these are the newest.';
  if (reachesBackTo === undefined)
    yield 'There are no entries: no agent of this tenant has a data-flow policy, or none found anything.';
  else yield `Entries reach back to ${dateTime(reachesBackTo)} (UTC).`;
}
