import type { Command } from 'commander';
import { defined } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import type { BatchView } from '../../../shared/contract/batch.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import { formatUsd } from '../../../shared/contract/money.ts';
import { OutputFile } from './output.ts';
import { batchLine, quoteText } from './show-batch.ts';
import { collect, examples, exitCodes, printJson, type AddCommand, type Cli, type ExitCode } from '../cli.ts';
import { wholeNumber } from '../options/arguments.ts';
import { openClient } from '../options/open-client.ts';
import { callOf } from '../show/call-of.ts';
import { listTable, nameColumn, numberColumn } from '../show/list-table.ts';
import { dateTime, dim } from '../show/paint.ts';
import { count, countOf, flat } from '../../../shared/base/words.ts';

interface Options {
  readonly json?: true;
}

/** What may be done with a batch as a whole, and what is said of it. */
const changes = {
  pause: 'Begin no further line; what is open goes on.',
  resume: 'Go on with a batch that is paused, or that waits with its quote.',
  cancel: 'Stop the open runs; the answers that there are become its results.',
} as const;

export const addBatches: AddCommand = (program, act) => {
  const batches = program
    .command('batches')
    .description('Show batches, and pause, resume, cancel and redrive them.')
    .addHelpText('after', examples('millrace batches', 'millrace batches pause batch_01KB0000000000000000000000'));
  batches
    .command('list', { isDefault: true })
    .description('List batches, newest first.')
    .option('--limit <n>', 'at most so many', wholeNumber(1, 10_000), 20)
    .option('--cursor <cursor>', 'go on where an earlier list ended, which printed it')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('millrace batches list --limit 50'))
    .action(act(list));
  one(batches, 'get', 'Show a batch with its counts, its cost and its files.').action(act(get));
  for (const [name, description] of Object.entries(changes) as [keyof typeof changes, string][])
    one(batches, name, description).action(
      act(async (cli: Cli, id: string, options: Options) => {
        await using mill = openClient(cli);
        return show(cli, await mill.batches[name](id), options);
      }),
    );
  one(batches, 'redrive', 'Run the lines again that have failed; a batch that has ended is open again.').action(
    act(redrive),
  );
  one(batches, 'download', 'Write the results of a batch to a file.')
    .requiredOption('-o, --output <file>', 'where they go')
    .option('--errors', 'of a batch of OpenAI’s lines: the error file; with --so-far: lines without an answer only')
    .option('--so-far', 'those that there are by now, of a batch that goes on')
    .action(act(download));
};

function one(batches: Command, name: string, description: string): Command {
  const more = name === 'download' ? ' -o answers.jsonl' : '';
  return batches
    .command(name)
    .description(description)
    .argument('<batch>', 'id of the batch')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples(`millrace batches ${name} batch_01KB0000000000000000000000${more}`));
}

async function list(
  cli: Cli,
  options: Options & { readonly limit: number; readonly cursor?: string },
): Promise<ExitCode> {
  await using mill = openClient(cli);
  const page = async ({ limit, cursor: after }: { limit: number; cursor?: string }) => {
    const { data, has_more } = await mill.batches.list({ limit, after });
    return { items: data, cursor: has_more ? data.at(-1)?.id : undefined };
  };
  const { found, cursor } = await collect(cli, options.limit, page, options.cursor);
  if (options.json) printJson(cli, found);
  else if (found.length > 0) cli.stdout.write(listTable(columns, found.map(rowOf), cli.stdout));
  else cli.stderr.write('There are no batches.\n');
  if (cursor !== undefined)
    cli.stderr.write(`${dim(cli.stderr, `More: ${callOf(cli)} batches list --cursor ${cursor}`)}\n`);
  return exitCodes.ok;
}

const columns = [
  nameColumn('BATCH'),
  nameColumn('NAME'),
  nameColumn('STATUS'),
  nameColumn('CREATED (UTC)'),
  numberColumn('LINES'),
  numberColumn('DONE'),
  numberColumn('FAILED'),
  numberColumn('COST'),
];

function rowOf({ id, name, status, created_at, request_counts: counts, cost }: BatchView): string[] {
  const { total, completed, failed } = counts;
  const created = dateTime(new Date(created_at * 1_000).toISOString());
  return [
    id,
    name === id ? '' : name,
    status,
    created,
    count(total),
    count(completed + failed),
    count(failed),
    formatUsd(cost.microcents),
  ];
}

async function get(cli: Cli, id: string, options: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  return show(cli, await mill.batches.get(id), options);
}

function show(cli: Cli, batch: BatchView, { json }: Options): ExitCode {
  if (json) return printJson(cli, batch);
  const { id, name, status, quote, output_file_id: output, error_file_id: errors } = batch;
  cli.stdout.write(`${id}${name === id ? '' : ` (${name})`}: ${status.replace('_', ' ')}\n${batchLine(batch)}\n`);
  if (quote) cli.stdout.write(`${quoteText(quote)}\n`);
  for (const { code, message } of batch.errors?.data ?? []) cli.stdout.write(`${code}: ${flat(message)}\n`);
  if (output !== undefined) cli.stdout.write(`results: ${output}\n`);
  if (errors !== undefined) cli.stdout.write(`errors: ${errors}\n`);
  return exitCodes.ok;
}

async function redrive(cli: Cli, id: string, options: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const { batch, lines } = await mill.batches.redrive(id);
  if (!options.json) cli.stderr.write(`${countOf(lines, 'line')} ${lines === 1 ? 'runs' : 'run'} again.\n`);
  return show(cli, batch, options);
}

interface Download {
  readonly output: string;
  readonly errors?: true;
  readonly soFar?: true;
}

async function download(
  cli: Cli,
  id: string,
  { output: path, errors, soFar, json }: Options & Download,
): Promise<ExitCode> {
  const output = await OutputFile.open(path, undefined);
  await using mill = openClient(cli);
  const batch = await mill.batches.get(id);
  if (soFar) {
    await output.replace(mill.batches.results(id, { of: errors ? 'errors' : 'all' }), cli.interrupted);
    if (json) return printJson(cli, { batch: id, output: path });
    cli.stdout.write(`${path}\n`);
    return exitCodes.ok;
  }
  const fileId = errors ? batch.error_file_id : batch.output_file_id;
  if (fileId === undefined)
    throw new RunError(
      'not_found',
      `${id} has no ${errors ? 'error file' : 'results'}: it is ${batch.status.replace('_', ' ')}${isEndedBatch(batch.status) ? '' : '; --so-far writes those there are by now'}`,
    );
  await output.begin(batch, '');
  await output.download(mill.files, fileId, () => {}, cli.interrupted);
  if (json) return printJson(cli, defined({ batch: id, fileId, output: path }));
  cli.stdout.write(`${path}\n`);
  return exitCodes.ok;
}
