import { dateTime, dim, duration, oneLine } from './show/paint.ts';
import { collect, printJson, examples, exitCodes } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import { runStatus, type RunView } from '../../shared/contract/run.ts';
import type { ListQuery } from '../client/list-runs.ts';
import { asJson, choice, command, text, value, valueOr, type ValuesOf } from './options/command.ts';
import { listTable, nameColumn, numberColumn, textColumn } from './show/list-table.ts';
import { openClient } from './options/open-client.ts';
import { wholeNumber } from './options/arguments.ts';
import { since, timeForms, until } from './options/when.ts';
import { waitsFor } from './show/pending.ts';

const options = [
  choice('--status <status>', 'only these', runStatus.options),
  text('--agent <id>', 'only runs of this agent'),
  text('--thread <id>', 'only runs of this thread'),
  text('--batch <name>', 'only runs of this batch'),
  text('--parent <run>', 'only runs that work for this run'),
  value('--since <time>', 'only runs created then or later', since),
  value('--until <time>', 'only runs created before; a day is included', until),
  valueOr('--limit <n>', 'at most so many', wholeNumber(1, 100_000), 20),
  text('--cursor <cursor>', 'go on where an earlier list ended, which printed it'),
  asJson,
];
type Options = ValuesOf<typeof options>;

export const addRuns = command('runs', {
  description: 'List runs, newest first.',
  options,
  help:
    examples(
      'millrace runs --status failed --limit 50',
      'millrace runs --agent support --since yesterday',
      'millrace runs --batch questions --since 2h --json',
    ) + `\n\nA time is ${timeForms}.\nDays, and times without a zone, are UTC.`,
  work: async (cli, asked) => {
    const { status, agent, thread, batch, since: after, until: before, limit, cursor: start, json } = asked;
    await using mill = openClient(cli);
    const parent = asked.parent === undefined ? undefined : await mill.findRunId(asked.parent);
    const query = { status, agent, thread, batch, parent, after, before };
    const page = async (range: ListQuery) => {
      const { runs: items, cursor: next } = await mill.list(defined({ ...query, ...range }));
      return { items, cursor: next };
    };
    const { found, cursor } = await collect(cli, limit, page, start);
    if (json) printJson(cli, found);
    else if (found.length > 0) cli.stdout.write(listTable(columns, found.map(rowOf), cli.stdout));
    else cli.stderr.write('There are no such runs.\n');
    if (cursor !== undefined) cli.stderr.write(`${dim(cli.stderr, `More: ${commandFor({ ...asked, cursor })}`)}\n`);
    return exitCodes.ok;
  },
});

const columns = [
  nameColumn('RUN'),
  nameColumn('STATUS'),
  nameColumn('AGENT'),
  nameColumn('CREATED (UTC)'),
  numberColumn('DURATION'),
  numberColumn('COST'),
  textColumn('NOTE'),
];

/** The same command from another place on. Relative times have become fixed ones. */
function commandFor(asked: Options): string {
  const words = Object.entries(asked).flatMap(([name, value]) => {
    if (value === undefined) return [];
    return value === true ? [`--${name}`] : [`--${name}`, String(value)];
  });
  return ['millrace runs', ...words].join(' ');
}

function rowOf(view: RunView): string[] {
  const note = view.error ? `${view.error.code}: ${oneLine(view.error.message, 60)}` : oneLine(waitsFor(view), 80);
  return [
    view.runId,
    view.status,
    view.agent,
    dateTime(view.createdAt),
    view.durationMs === undefined ? '' : duration(view.durationMs),
    formatUsd(view.costMicrocents),
    note,
  ];
}
