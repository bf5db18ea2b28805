import { dateTime, dim } from './show/paint.ts';
import { count, duration, oneLine } from '../../shared/base/words.ts';
import { collect, printJson, examples, exitCodes, type Cli, type ExitCode } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import { runStatus, type RunView } from '../../shared/contract/run.ts';
import type { ListQuery } from '../client/list-runs.ts';
import { asJson, choice, command, flag, text, valueOr, type ValuesOf } from './options/command.ts';
import { listTable, nameColumn, numberColumn, textColumn } from './show/list-table.ts';
import { openClient } from './options/open-client.ts';
import { wholeNumber } from './options/arguments.ts';
import { timeForms } from './options/when.ts';
import { filterFrom, filterOptions } from './options/run-filter.ts';
import type { RunCounts } from '../client/many-runs.ts';
import { waitsFor } from './show/pending.ts';

const options = [
  choice('--status <status>', 'only these', runStatus.options),
  ...filterOptions,
  valueOr('--limit <n>', 'at most so many', wholeNumber(1, 100_000), 20),
  text('--cursor <cursor>', 'go on where an earlier list ended, which printed it'),
  flag('--counts', 'only count them, by status'),
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
      'millrace runs --batch questions --metadata shop=north --counts',
    ) + `\n\nA time is ${timeForms}.\nDays, and times without a zone, are UTC.`,
  work: async (cli, asked) => {
    const { status, limit, cursor: start, json } = asked;
    await using mill = openClient(cli);
    const query = defined({ ...(await filterFrom(mill, asked)), status });
    if (asked.counts) return showCounts(cli, await mill.count(query), json === true);
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

function showCounts(cli: Cli, counts: RunCounts, json: boolean): ExitCode {
  if (json) return printJson(cli, counts);
  const { total, byStatus, complete } = counts;
  for (const status of runStatus.options) {
    const runs = byStatus[status];
    if (runs !== undefined) cli.stdout.write(`${count(runs)} ${status}\n`);
  }
  cli.stdout.write(`${count(total)} in all\n`);
  if (!complete)
    cli.stderr.write('Only the newest 200,000 runs were looked at: narrow them with --since and --until.\n');
  return exitCodes.ok;
}

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
  const words = Object.entries(asked).flatMap(([field, value]) => {
    const name = field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    if (value === undefined) return [];
    if (typeof value === 'object')
      return Object.entries(value).flatMap(([key, label]) => [`--${name}`, shellWord(`${key}=${label}`)]);
    return value === true ? [`--${name}`] : [`--${name}`, String(value)];
  });
  return ['millrace runs', ...words].join(' ');
}

/** A word as a shell takes it. */
function shellWord(text: string): string {
  return /^[\w=.:@%+,/-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function rowOf(view: RunView): string[] {
  const { error, inputPreview = '' } = view;
  const note = error ? `${error.code}: ${oneLine(error.message, 60)}` : oneLine(waitsFor(view) || inputPreview, 80);
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
