import { defined } from '../../shared/base/collections.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import type { BatchDefaults } from '../batch/batch-file.ts';
import { runBatch, type BatchProgress, type BatchSummary, type BatchWatcher } from '../batch/run-batch.ts';
import { openClient } from './options/open-client.ts';
import { examples, exitCodes, type Cli, type ExitCode } from './cli.ts';
import { command, flag, required, text, value, valueOr, type ValuesOf } from './options/command.ts';
import {
  budgetFrom,
  deadlineFrom,
  deadlineOption,
  onExceedOption,
  positiveNumber,
  wholeNumber,
} from './options/arguments.ts';
import { batchLine, ratePerSecond, LiveLine } from './show/live-line.ts';
import { count, dim, duration, oneLine, red, yellow } from './show/paint.ts';

const options = [
  required('-o, --output <file>', 'the JSONL file for the results'),
  text('--name <name>', 'the batch’s name (default: that of the file, without its extension)'),
  text('--agent <id>', 'agent of the lines that name none'),
  text('--model <name>', 'use this model instead of the agents’ own'),
  value('--max-cost <usd>', 'spend no more than this on all runs of the batch together', positiveNumber),
  onExceedOption(),
  deadlineOption('end each run so long after its acceptance, whatever it waits for'),
  valueOr('--window <n>', 'runs in flight at most', wholeNumber(1, 10_000), 1_000),
  value('--max-failures <n>', 'stop after so many failed lines', wholeNumber(1)),
  flag('--retry-failed', 'also go on with the runs that failed in earlier tries'),
  flag('--json', 'print the summary as one JSON document'),
];
type Options = ValuesOf<typeof options>;

export const addBatch = command('batch <file>', {
  description: 'Run every line of a JSONL file; results are appended to another as they come.',
  options,
  help:
    examples('millrace batch questions.jsonl --agent support -o answers.jsonl') +
    '\n\nA line is a JSON string, or an object with `input` and optionally `id` (or `custom_id`) and any field of a run.' +
    '\nA bad line is reported with file and line, gets its error in the results, and does not stop the others.' +
    '\nSafe to stop and to repeat: a line with a result does not run again, wherever it stands in the file by then. So correct' +
    '\nor add lines, and give the same command again. Two equal lines are two runs; an id can stand in one line only.' +
    '\nThe name is the batch: another name begins another one, with a budget of its own.' +
    '\nWith --on-exceed pause_for_approval runs wait when the money is spent, until `millrace budget top-up` gives the batch more.' +
    '\nResults are {line, id, executionId, runId, status, text, error, costMicrocents, usage}.',
  work: batch,
});

async function batch(cli: Cli, file: string, asked: Options): Promise<ExitCode> {
  const { output, name, window, maxFailures, retryFailed } = asked;
  // Not part of the defaults: with another cap it is still the same batch.
  const budget = budgetFrom(asked);
  await using mill = openClient(cli);
  const startedAt = performance.now();
  const elapsedMs = () => performance.now() - startedAt;
  using live = new LiveLine(cli.stderr);
  const defaults = defaultsOf(asked);
  const settings = defined({ file, out: output, name, defaults, window, budget, maxFailures, retryFailed });
  const summary = await runBatch(mill, settings, watch(cli, live, { ...asked, file, elapsedMs }), cli.interrupted);
  live.set(batchLine(summary, elapsedMs()));
  live[Symbol.dispose]();
  report(cli, summary, { ...asked, file, elapsedMs: elapsedMs() });
  return exitCodeOf(summary);
}

function defaultsOf({ agent, model, deadline }: Options): BatchDefaults {
  const overrides = model === undefined ? undefined : { model };
  return defined({ agent, overrides, ...deadlineFrom({ deadline }) });
}

interface Watching extends Options {
  readonly file: string;
  readonly elapsedMs: () => number;
}

function watch(cli: Cli, live: LiveLine, { file, output, elapsedMs }: Watching): BatchWatcher {
  return {
    progress: (progress: BatchProgress) => live.set(batchLine(progress, elapsedMs())),
    continued: (earlier, replaced) => {
      if (replaced === 0) return;
      const moved = `${countOf(replaced, 'result')} of lines that have changed or are gone to ${output}.replaced`;
      live.note(`${file} has changed: kept ${countOf(earlier, 'result')}, moved ${moved}.`);
    },
    spentBefore: ({ id, spentMicrocents }) =>
      live.note(
        yellow(
          cli.stderr,
          `Runs of the batch ${id} have spent ${formatUsd(spentMicrocents)} of its budget before; --name begins another batch.`,
        ),
      ),
    refused: (line, { code, message }) =>
      live.note(red(cli.stderr, `${file}:${line}: ${code}: ${oneLine(message, 300)}`)),
    outOfMoney: (accounts) =>
      live.note(yellow(cli.stderr, `All runs wait for money. They go on after: ${accounts.map(topUp).join(', or ')}`)),
    waiting: ({ code, message }, delayMs) =>
      live.note(yellow(cli.stderr, `${code}: ${oneLine(message, 200)}; trying again in ${duration(delayMs)}`)),
  };
}

function topUp(account: string): string {
  const [scope, ...id] = account.split(':');
  return `millrace budget top-up ${scope} ${id.join(':')} USD`;
}

interface Reporting extends Options {
  readonly file: string;
  readonly elapsedMs: number;
}

function report(cli: Cli, summary: BatchSummary, { file, output, json, elapsedMs }: Reporting): void {
  const { end, total, finished, failed, running, waiting, costMicrocents } = summary;
  if (json) {
    const perSecond = Number(ratePerSecond(summary, elapsedMs).toFixed(2));
    cli.stdout.write(`${JSON.stringify({ ...summary, output, elapsedMs: Math.round(elapsedMs), perSecond })}\n`);
  } else if (end === 'finished') {
    cli.stdout.write(
      `${count(total)} lines, ${count(failed)} failed, ${formatUsd(costMicrocents)}, ${duration(elapsedMs)}: ${output}\n`,
    );
  }
  if (end !== 'finished') {
    const why = end === 'interrupted' ? 'Stopped' : `Stopped after ${count(failed)} failed lines`;
    const going =
      running + waiting === 0 ? '' : ` ${countOf(running + waiting, 'run')} under way continue on the workers.`;
    const advice = 'Give the same command again to go on: lines that have begun do not run twice.';
    cli.stderr.write(`${why} at ${count(finished)} of ${count(total)}.${going} ${advice}\n`);
  }
  for (const hint of hintsOn(summary, file)) cli.stderr.write(`${dim(cli.stderr, hint)}\n`);
}

/** What can be done about lines without an answer. */
function* hintsOn({ failed, refused }: BatchSummary, file: string): Generator<string> {
  if (refused > 0)
    yield `${countOf(refused, 'line')} of ${file} never became a run: correct them and give the same command again; no other line runs again.`;
  if (failed > refused)
    yield `${countOf(failed - refused, 'run')} gave no answer: the same command with --retry-failed goes on with those that failed.`;
}

function countOf(items: number, what: string): string {
  return `${count(items)} ${what}${items === 1 ? '' : 's'}`;
}

function exitCodeOf({ end, failed }: BatchSummary): ExitCode {
  if (end === 'interrupted') return exitCodes.interrupted;
  return failed > 0 || end === 'too_many_failures' ? exitCodes.failed : exitCodes.ok;
}
