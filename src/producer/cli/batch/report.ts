import type { BatchView } from '../../../shared/contract/batch.ts';
import { formatUsd } from '../../../shared/contract/money.ts';
import type { Millrace } from '../../client/millrace.ts';
import { exitCodes, type Cli, type ExitCode, shownJson } from '../cli.ts';
import { callOf } from '../show/call-of.ts';
import type { LiveLine } from '../show/live-line.ts';
import { dim, red, yellow } from '../show/paint.ts';
import { count, countOf, duration, oneLine } from '../../../shared/base/words.ts';
import type { BatchWatcher } from './follow-batch.ts';
import type { OutputFile } from './output.ts';
import { batchLine, endOf, type BatchEnd } from './show-batch.ts';

/** What a command about a batch works with, and says at its end. */
export interface Reporting {
  readonly cli: Cli;
  readonly mill: Millrace;
  readonly live: LiveLine;
  readonly asked: {
    readonly json?: true | undefined;
    readonly retryFailed?: true | undefined;
    readonly yes?: true | undefined;
    readonly maxCost?: number | undefined;
  };
  readonly output: OutputFile | undefined;
  /** Undefined: it was attached to. */
  readonly file: string | undefined;
  readonly digest: string;
  readonly badLines: number;
}

/** Shows what happens to a batch in the live line and above it. */
export function watcherFor({ cli, live }: Pick<Reporting, 'cli' | 'live'>): BatchWatcher {
  return {
    progress: (batch) => live.set(batchLine(batch)),
    outOfMoney: ({ name }) =>
      live.note(
        yellow(cli.stderr, `All runs wait for money. They go on after: millrace budget top-up batch ${name} USD`),
      ),
    waiting: (message, delayMs) =>
      live.note(yellow(cli.stderr, `${oneLine(message, 200)}; looking again in ${duration(delayMs)}`)),
  };
}

/** What the command prints of a batch that has ended, or that it leaves as it is, and its exit code. */
export function reportEnd(reporting: Reporting, batch: BatchView, code?: ExitCode): ExitCode {
  const { cli, asked, output } = reporting;
  const { total, failed } = batch.request_counts;
  const end = endOf(batch) ?? 'interrupted';
  if (asked.json) printSummary(reporting, batch, end);
  else if (end === 'finished') {
    const where = output ? `: ${output.path}` : '';
    const took =
      batch.completed_at === undefined ? '' : `, ${duration((batch.completed_at - batch.created_at) * 1_000)}`;
    cli.stdout.write(
      `${countOf(total, 'line')}, ${count(failed)} failed, ${formatUsd(batch.cost.microcents)}${took}${where}\n`,
    );
  }
  for (const problem of batch.errors?.data ?? [])
    cli.stderr.write(`${red(cli.stderr, `${problem.code}: ${oneLine(problem.message, 300)}`)}\n`);
  for (const hint of hintsOn(reporting, batch)) cli.stderr.write(`${dim(cli.stderr, hint)}\n`);
  return code ?? (end === 'finished' && failed === 0 ? exitCodes.ok : exitCodes.failed);
}

function printSummary({ cli, output }: Reporting, batch: BatchView, end: BatchEnd): void {
  const { id, name, status, request_counts: counts, cost, quote, output_file_id: fileId } = batch;
  const { total, completed, failed } = counts;
  const elapsedMs = batch.completed_at === undefined ? undefined : (batch.completed_at - batch.created_at) * 1_000;
  const finished = completed + failed;
  const amounts = { total, finished, failed, costMicrocents: cost.microcents };
  cli.stdout.write(
    shownJson({ batch: name, id, end, status, ...amounts, elapsedMs, quote, fileId, output: output?.path }),
  );
}

/** What can be done about a batch that did not answer every line. */
function* hintsOn({ cli, badLines, file, output }: Reporting, batch: BatchView): Generator<string> {
  const { id, status, request_counts: counts, output_file_id: fileId } = batch;
  const failedRuns = counts.failed - badLines;
  if (status === 'cancelled' || status === 'expired')
    yield `The batch was ${status}: what there is of its results was kept.`;
  if (status !== 'completed') return;
  if (badLines > 0)
    yield `${countOf(badLines, 'line')} of ${file} never became a run: correct them and give the same command again; no other line runs again.`;
  if (failedRuns > 0)
    yield `${countOf(failedRuns, 'line')} got no answer: the same command with --retry-failed goes on with the runs that failed.`;
  if (!output && fileId !== undefined) yield `The results: ${callOf(cli)} batches download ${id} -o FILE`;
}

/** What a person has to know who stops following. */
export function reportInterrupt(reporting: Reporting, batch: BatchView): ExitCode {
  const { cli, asked } = reporting;
  if (asked.json) printSummary(reporting, batch, 'interrupted');
  const { completed, failed, total } = batch.request_counts;
  cli.stderr.write(
    `Stopped following at ${count(completed + failed)} of ${count(total)}. ${goesOn(reporting, batch)}\n`,
  );
  return exitCodes.interrupted;
}

/** The batch was begun, and the command does not wait for it. */
export function reportLeft(reporting: Reporting, batch: BatchView): ExitCode {
  const { cli, asked } = reporting;
  if (asked.json) printSummary(reporting, batch, 'detached');
  else cli.stdout.write(`${batch.id}\n`);
  cli.stderr.write(`${goesOn(reporting, batch)}\n`);
  return exitCodes.ok;
}

function goesOn({ cli, output }: Reporting, { id }: BatchView): string {
  const where = cli.env['MILLRACE_URL']
    ? 'The batch goes on without this command.'
    : 'The batch goes on where a producer runs.';
  const back = `${callOf(cli)} batch --attach ${id}${output ? ` -o ${output.path}` : ''}`;
  return `${where} To come back: ${back}`;
}
