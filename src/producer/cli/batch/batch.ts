import { Option } from 'commander';
import { basename, extname } from 'node:path';
import { defined } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { thereIsNo } from '../../../shared/base/nearest.ts';
import { batchId, type BatchView } from '../../../shared/contract/batch.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import { formatUsd } from '../../../shared/contract/money.ts';
import type { Millrace } from '../../client/millrace.ts';
import { beginBatch, digestOf, findBatch, newest, type BatchAsked } from './find-batch.ts';
import { followBatch } from './follow-batch.ts';
import { OutputFile } from './output.ts';
import { checkFile, type OwnFile } from './own-file.ts';
import { decideRest } from './rest.ts';
import { reportEnd, reportInterrupt, reportLeft, watcherFor, type Reporting } from './report.ts';
import { batchLine } from './show-batch.ts';
import { examples, exitCodes, type Cli, type ExitCode, shownJson } from '../cli.ts';
import {
  budgetFrom,
  deadlineFrom,
  deadlineOption,
  onExceedOption,
  positiveNumber,
  wholeNumber,
} from '../options/arguments.ts';
import { command, flag, text, value, valueOr, type OptionOf, type ValuesOf } from '../options/command.ts';
import { openClient } from '../options/open-client.ts';
import { LiveLine } from '../show/live-line.ts';
import { red, yellow } from '../show/paint.ts';
import { countOf, oneLine } from '../../../shared/base/words.ts';

const attachOption: OptionOf<'attach', string | true | undefined> = new Option(
  '--attach [batch]',
  'follow a batch that is there: this one, that of the output file, or the newest',
);

const options = [
  text('-o, --output <file>', 'where the results go when the batch has ended'),
  text('--name <name>', 'the batch’s name (default: that of the file, without its extension)'),
  text('--agent <id>', 'agent of the lines that name none'),
  text('--template <text>', 'make the input of each line from its fields, for instance "Where is {{ order }}?"'),
  text('--model <name>', 'use this model instead of the agents’ own'),
  text('--queue <name>', 'queue of the runs'),
  value('--priority <n>', 'order within the queue: 0 is first', wholeNumber(0, 2_097_151)),
  flag('--quote', 'run a sample, then say what all will cost and how long it will take, and ask'),
  value('--sample <lines>', 'lines of the sample (default: 20)', wholeNumber(1, 1_000)),
  flag('--yes', 'go on from a quote without asking'),
  value('--max-cost <usd>', 'spend no more than this on all runs of the batch together', positiveNumber),
  onExceedOption(),
  deadlineOption('end each run so long after its acceptance, whatever it waits for'),
  valueOr('--window <n>', 'lines that are open at once, at most', wholeNumber(1, 10_000), 200),
  value('--max-failures <n>', 'pause after so many failed lines', wholeNumber(1)),
  flag('--retry-failed', 'also go on with the runs that failed'),
  flag('--detach', 'begin the batch and do not follow it'),
  attachOption,
  flag('--json', 'print the summary as one JSON document'),
];
type Options = ValuesOf<typeof options>;

export const addBatch = command('batch [file]', {
  description: 'Run every line of a JSONL or CSV file, in the background; results come as a file.',
  options,
  help:
    examples(
      'millrace batch questions.jsonl --agent support -o answers.jsonl',
      'millrace batch tickets.csv --agent support --template "{{ subject }}: {{ text }}" --quote -o answers.csv',
      'millrace batch --attach -o answers.jsonl',
    ) +
    '\n\nA line of JSONL is a JSON string, or an object with `input` and optionally `id` (or `custom_id`) and any field of a run.' +
    '\nA row of a CSV has a column `input`, or --template makes the input of its columns; `id`, `agent` and `metadata.NAME` count, too.' +
    '\nA bad line is reported with file and line, gets its error in the results, and does not stop the others.' +
    '\nThe batch goes on without this command. The same command finds it again, as does --attach, also from another machine.' +
    '\nA line does not run twice: correct or add lines, and give the same command again within a day.' +
    '\nThe name is the batch: another name begins another one, with a budget of its own.' +
    '\nWith --on-exceed pause_for_approval runs wait when the money is spent, until `millrace budget top-up` gives the batch more.',
  work: batch,
});

async function batch(cli: Cli, file: string | undefined, asked: Options): Promise<ExitCode> {
  checkTogether(file, asked);
  const budget = budgetFrom(asked);
  const output = asked.output === undefined ? undefined : await OutputFile.open(asked.output, file);
  await using mill = openClient(cli);
  using live = new LiveLine(cli.stderr);
  const work: Work = { cli, mill, live, asked, output, file };
  try {
    const begun = file === undefined ? await attached(work) : await begunOrFound(work, file, budget);
    if (begun === 'no lines') return await reportNoLines(work);
    if (budget && !begun.isNew) await mill.budgets.set('batch', begun.batch.name, budget);
    const reporting: Reporting = { ...work, digest: begun.digest, badLines: begun.badLines };
    const moved = await output?.begin(begun.batch, begun.digest);
    if (moved !== undefined) live.note(`What ${output?.path} had is in ${moved} now.`);
    if (asked.detach) return reportLeft(reporting, begun.batch);
    return await carry(reporting, begun.batch, begun.isNew);
  } catch (error) {
    if (!cli.interrupted.aborted) throw error;
    // Nothing was begun yet.
    cli.stderr.write('Stopped before the batch began.\n');
    return exitCodes.interrupted;
  }
}

interface Work {
  readonly cli: Cli;
  readonly mill: Millrace;
  readonly live: LiveLine;
  readonly asked: Options;
  readonly output: OutputFile | undefined;
  readonly file: string | undefined;
}

/** Options that say what a batch is, which one that is there knows itself. */
const ofBeginning = [
  'name',
  'agent',
  'template',
  'model',
  'queue',
  'priority',
  'quote',
  'deadline',
  'maxFailures',
  'detach',
] as const;

function checkTogether(file: string | undefined, asked: Options): void {
  const { attach, output, quote, yes, sample, detach, maxCost } = asked;
  if (file === undefined && attach === undefined)
    throw new RunError('validation', 'a batch needs a file of lines, or --attach for one that was begun before');
  if (file !== undefined && attach !== undefined)
    throw new RunError('validation', '--attach follows a batch that was begun before: leave out the file');
  const useless = ofBeginning.find((name) => attach !== undefined && asked[name] !== undefined);
  if (useless !== undefined)
    throw new RunError(
      'validation',
      `--attach follows a batch as it was begun: leave out --${useless.replace(/[A-Z]/g, (it) => `-${it.toLowerCase()}`)}`,
    );
  if (typeof attach === 'string' && !batchId.safeParse(attach).success)
    throw new RunError('validation', `${attach} is not the id of a batch`);
  if (sample !== undefined && !quote) throw new RunError('validation', '--sample needs --quote, which runs it');
  if (yes && detach && maxCost === undefined)
    throw new RunError('validation', '--yes with --detach needs --max-cost: the server goes on from a quote below it');
  if (yes && !quote && attach === undefined)
    throw new RunError('validation', '--yes needs --quote: there is nothing to ask');
  if (file === undefined || output === undefined || isCsv(file) === isCsv(output)) return;
  const [form, extension] = isCsv(file) ? ['a CSV', 'csv'] : ['JSONL', 'jsonl'];
  const better = `${output.slice(0, output.length - extname(output).length)}.${extension}`;
  throw new RunError('validation', `${file} is ${form}, and so are its results: name them ${better}`);
}

function isCsv(path: string): boolean {
  return extname(path).toLowerCase() === '.csv';
}

interface Begun {
  readonly batch: BatchView;
  readonly isNew: boolean;
  readonly digest: string;
  /** As far as this command has seen them. */
  readonly badLines: number;
}

async function attached({ mill, asked, output }: Work): Promise<Begun> {
  const id = typeof asked.attach === 'string' ? asked.attach : (output?.note?.batch ?? (await newestOf(mill)));
  const batch = await mill.batches.get(id);
  return { batch, isNew: false, digest: output?.note?.batch === id ? output.note.digest : '', badLines: 0 };
}

/** The newest batch that has not ended, or the newest of all. */
async function newestOf(mill: Millrace): Promise<string> {
  let first: BatchView | undefined;
  for await (const batch of newest(mill)) {
    if (!isEndedBatch(batch.status)) return batch.id;
    first ??= batch;
  }
  if (first) return first.id;
  throw new RunError('not_found', 'there is no batch to attach to');
}

/** Finds the batch that the same command has begun, or begins it. */
async function begunOrFound(
  work: Work,
  file: string,
  budget: ReturnType<typeof budgetFrom>,
): Promise<Begun | 'no lines'> {
  const { cli, mill, live, output } = work;
  const request = requestOf(work.asked, file);
  await checkAgent(mill, request.agent);
  const checked = await check(work, file, request);
  if (checked.lines + checked.badLines === 0) return 'no lines';
  const digest = digestOf(checked, request);
  const { badLines } = checked;
  const found = await findBatch(mill, digest, output?.note);
  if (found) {
    if (!isEndedBatch(found.status))
      live.note(`Found ${found.id}, which this command has begun before: it goes on as it was begun.`);
    return { batch: found, isNew: false, digest, badLines };
  }
  refuseLateRepeat(output, request.name);
  if (budget) {
    const { spentMicrocents } = await mill.budgets.set('batch', request.name, budget);
    if (spentMicrocents > 0 && output?.note?.name !== request.name)
      live.note(
        yellow(
          cli.stderr,
          `Runs of the batch ${request.name} have spent ${formatUsd(spentMicrocents)} of its budget before; --name begins another batch.`,
        ),
      );
  }
  const onProgress = (bytes: number) =>
    live.set(`Uploading ${file}: ${megabytes(bytes)} of ${megabytes(checked.bytes)} MB`);
  const batch = await beginBatch(mill, { file: checked, request }, onProgress, cli.interrupted);
  return { batch, isNew: true, digest, badLines };
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

/** Runs are known by what their line says for a day: after that, lines that have their result would run and cost once more. */
const dayMs = 86_400_000;

function refuseLateRepeat(output: OutputFile | undefined, name: string): void {
  const { note, path } = output ?? {};
  if (note?.name !== name || Date.now() - note.createdAt < dayMs) return;
  const why = 'began more than a day ago: its lines would run, and cost, once more';
  throw new RunError(
    'validation',
    `${path} is of a batch ${name} that ${why}. Begin another one with --name and -o, or leave those lines out`,
  );
}

function requestOf(asked: Options, file: string): BatchAsked {
  const { agent, model, queue, priority, template: inputTemplate, window: maxOpen, maxFailures, quote, sample } = asked;
  const name = asked.name ?? batchNameOf(file);
  checkBatchName(name);
  const overrides = model === undefined ? undefined : { model };
  // Where this command does not wait for the quote, the server decides.
  const maxCostUsd = asked.detach ? asked.maxCost : undefined;
  const quoting = quote ? defined({ lines: sample, maxCostUsd }) : undefined;
  const settings = { name, agent, inputTemplate, overrides, queue, priority, maxOpen, maxFailures, quote: quoting };
  return defined({ ...settings, ...deadlineFrom(asked) });
}

/** The name of a batch that was given none: that of its file, without folder and extension. */
function batchNameOf(file: string): string {
  const name = basename(file, extname(file)).replaceAll(/[^A-Za-z0-9._-]+/g, '-');
  return name.slice(0, 80) || 'batch';
}

function checkBatchName(name: string): void {
  if (/^[A-Za-z0-9._-]{1,80}$/.test(name)) return;
  throw new RunError('validation', 'the name of a batch must be 1 to 80 characters of A-Z a-z 0-9 . _ -');
}

/** A wrong name would fail every single line, so it is found before the first. Nothing is known until a worker ran. */
async function checkAgent(mill: Millrace, agent: string | undefined): Promise<void> {
  if (agent === undefined) return;
  const known = await mill.agents();
  if (known.length === 0 || known.some(({ id }) => id === agent)) return;
  throw new RunError(
    'validation',
    thereIsNo(
      'agent',
      agent,
      known.map(({ id }) => id),
    ),
  );
}

const shownBadLines = 50;

async function check({ cli, live }: Work, file: string, request: BatchAsked): Promise<OwnFile> {
  const { agent, overrides, deadlineMs, priority, queue, inputTemplate } = request;
  const defaults = defined({ agent, overrides, deadlineMs, priority, queue });
  const draft = { endpoint: '/v1/runs', filename: basename(file), defaults, inputTemplate, answerFields: [] } as const;
  let shown = 0;
  live.set(`Reading ${file}`);
  const checked = await checkFile(
    file,
    draft,
    (line, message) => {
      if (shown++ < shownBadLines) live.note(red(cli.stderr, `${file}:${line}: validation: ${oneLine(message, 300)}`));
    },
    cli.interrupted,
  );
  if (checked.badLines > shownBadLines)
    live.note(red(cli.stderr, `${file}: ${countOf(checked.badLines - shownBadLines, 'more bad line')}`));
  return checked;
}

async function reportNoLines({ cli, output, asked, file = '' }: Work): Promise<ExitCode> {
  await output?.writeEmpty();
  const summary = {
    batch: asked.name ?? batchNameOf(file),
    end: 'finished',
    total: 0,
    finished: 0,
    failed: 0,
    costMicrocents: 0,
    output: output?.path,
  };
  cli.stdout.write(asked.json ? shownJson(summary) : `${file} has no lines: there is nothing to do\n`);
  return exitCodes.ok;
}

/** Follows a batch to its end, decides where it rests, and fetches its results. */
async function carry(reporting: Reporting, begun: BatchView, isNew: boolean): Promise<ExitCode> {
  const { cli, mill, live, asked, output, file } = reporting;
  // Beside Redis this process may be the only one that advances batches.
  await using _ = await mill.batches.advance();
  let batch = begun;
  let retries = asked.retryFailed === true;
  try {
    for (;;) {
      live.set(batchLine(batch));
      if (retries && !isNew) [batch, retries] = [await retried(mill, batch), false];
      batch = await followBatch(mill.batches, batch, watcherFor(reporting), cli.interrupted);
      if (retries && batch.status === 'completed') [batch, retries] = [await retried(mill, batch), false];
      if (isEndedBatch(batch.status)) break;
      if (batch.status !== 'paused' && batch.status !== 'quoted') continue;
      live[Symbol.dispose]();
      const wishes = {
        yes: asked.yes === true,
        maxCost: asked.maxCost,
        json: asked.json === true,
        isRepeated: file !== undefined && !isNew,
      };
      const decided = await decideRest(cli, mill.batches, batch, wishes);
      if (decided.kind === 'stays') return reportEnd(reporting, batch, decided.code);
      batch = decided.batch;
    }
    if (output && batch.output_file_id !== undefined)
      await output.download(
        mill.files,
        batch.output_file_id,
        (bytes, all) => live.set(`Downloading ${megabytes(bytes)} of ${megabytes(all)} MB`),
        cli.interrupted,
      );
  } catch (error) {
    if (!cli.interrupted.aborted) throw error;
    live[Symbol.dispose]();
    return reportInterrupt(reporting, batch);
  }
  live.set(batchLine(batch));
  live[Symbol.dispose]();
  return reportEnd(reporting, batch);
}

async function retried(mill: Millrace, batch: BatchView): Promise<BatchView> {
  return batch.request_counts.failed === 0 ? batch : (await mill.batches.redrive(batch.id)).batch;
}
