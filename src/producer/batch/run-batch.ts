import { thereIsNo } from '../../shared/base/nearest.ts';
import { defined } from '../../shared/base/collections.ts';
import { asRunError, type ErrorInfo, RunError } from '../../shared/base/errors.ts';
import type { BudgetView } from '../../shared/contract/money.ts';
import type { Accepted } from '../client/enqueue.ts';
import type { BudgetSettings } from '../client/budgets.ts';
import type { Millrace } from '../client/millrace.ts';
import { isTerminalStatus, type RunOutcomeView } from '../../shared/contract/run.ts';
import { batchNameOf, checkBatchName, readBatch, type BatchLine, type BatchSource } from './batch-file.ts';
import { BatchOutput, isFailure, type BatchResult, type EarlierResult, type IndexedLine } from './batch-output.ts';
import { Outstanding, type OutstandingRun } from './outstanding.ts';
import { submit } from './submit.ts';

/** What a batch needs of the client. */
export type BatchClient = Pick<
  Millrace,
  'agents' | 'enqueueMany' | 'redrive' | 'result' | 'get' | 'firehose' | 'budgets'
>;

export interface BatchOptions {
  /** The JSONL file to read. */
  readonly file: string;
  /** The JSONL file that results are appended to; made when missing. */
  readonly out: string;
  /** Up to 80 characters of `A-Z a-z 0-9 . _ -`. Default: the name of the file, without its extension. */
  readonly name?: string;
  readonly defaults: BatchSource['defaults'];
  /** Redrive the runs that failed in earlier tries. */
  readonly retryFailed?: boolean;
  /** What all runs of the batch may cost together. Set before the first line, again each time. Absent: left as it is. */
  readonly budget?: BudgetSettings;
  /** Runs in flight at most. Bounds memory, and what one batch may put into the queue. */
  readonly window: number;
  /** New failures after which no further line is begun; absent: no limit. */
  readonly maxFailures?: number;
}

type RequestLine = Extract<BatchLine, { kind: 'request' }>;

/** How far a batch is. `earlier` lines were in the output file already; they are part of `finished` and `failed`. */
export interface BatchProgress {
  readonly total: number;
  readonly earlier: number;
  readonly finished: number;
  readonly failed: number;
  /** The part of `failed` that never became a run. */
  readonly refused: number;
  /** Queued or running. */
  readonly running: number;
  /** Suspended, and those of them that wait for money. */
  readonly waiting: number;
  readonly waitingForMoney: number;
  readonly costMicrocents: number;
}

/** Called with what happens, to show it. Must not throw. */
export interface BatchWatcher {
  progress(progress: BatchProgress): void;
  /** Called once before the first line: how many earlier results were of lines that have changed or are gone. */
  continued(earlier: number, replaced: number): void;
  /** A new output file begins, and runs of this name have spent some of its budget before. */
  spentBefore(budget: BudgetView): void;
  /** A line that never becomes a run. Called again in each try. */
  refused(line: number, error: ErrorInfo): void;
  /** Every run that was begun waits for money of these accounts (`scope:id`). It goes on once there is more. */
  outOfMoney(accounts: readonly string[]): void;
  /** The queue is full or Redis is away; the next try comes after `delayMs`. */
  waiting(reason: ErrorInfo, delayMs: number): void;
}

/** Why a batch ended, and how far it came. Only `finished` means that every line has its result. */
export interface BatchSummary extends BatchProgress {
  /** The name of the batch, which its runs have as their `batch`. */
  readonly batch: string;
  readonly end: 'finished' | 'interrupted' | 'too_many_failures';
}

/** Lines that are enqueued in one go. */
const groupSize = 100;

/**
 * Runs every line of a JSONL file and appends a result line for each to another. The execution id of a line follows from
 * the batch's name, the defaults and what the line says: repeating the batch, after whatever ended it and with lines that were
 * corrected, moved or added, attaches to the runs that exist (for 24 hours) and skips the lines that have their result. An
 * aborted signal ends it early; runs that are under way go on.
 *
 * Throws `validation` for files that cannot be read or written, an unknown agent, or an output file of another batch;
 * `queue_unavailable` when Redis is away at the start, or for longer than 10 minutes.
 */
export async function runBatch(
  client: BatchClient,
  options: BatchOptions,
  watcher: BatchWatcher,
  signal: AbortSignal,
): Promise<BatchSummary> {
  const { file, out, name = batchNameOf(file), defaults, retryFailed = false } = options;
  checkBatchName(name);
  await checkAgent(client, defaults);
  const source = { file, name, defaults };
  const lines = await indexLines(source);
  await using output = await BatchOutput.open(out, { batch: source, lines, retryFailed });
  watcher.continued(output.earlier.length, output.replaced);
  if (options.budget) {
    const budget = await client.budgets.set('batch', name, options.budget);
    if (output.earlier.length === 0 && budget.spentMicrocents > 0) watcher.spentBefore(budget);
  }
  const stopping = new AbortController();
  const stop = AbortSignal.any([signal, stopping.signal]);
  const run = new BatchRun(
    { client, options, watcher, source, output, stopping, stop },
    new Tally(lines.size, output.earlier),
  );
  run.report();
  const settled = await Promise.allSettled(
    [run.follow(), run.submitAll()].map((work) =>
      work.catch((error: unknown) => {
        stopping.abort(error);
        throw error;
      }),
    ),
  );
  const expected = new Set([tooManyFailures, signal.reason]);
  for (const outcome of settled)
    if (outcome.status === 'rejected' && !expected.has(outcome.reason)) throw outcome.reason;
  return { ...run.progress(), batch: name, end: endOf(stop) };
}

async function indexLines(source: BatchSource): Promise<ReadonlyMap<string, IndexedLine>> {
  const lines = new Map<string, IndexedLine>();
  for await (const { executionId, line, kind } of readBatch(source)) lines.set(executionId, { line, kind });
  return lines;
}

/** What one pass over a batch works with. */
interface BatchWork {
  readonly client: BatchClient;
  readonly options: BatchOptions;
  readonly watcher: BatchWatcher;
  readonly source: BatchSource;
  readonly output: BatchOutput;
  /** Ends the pass from inside, with the reason. */
  readonly stopping: AbortController;
  readonly stop: AbortSignal;
}

/** One pass over a batch: submits its lines, and writes a result for each run that ends. */
class BatchRun {
  readonly #work: BatchWork;
  readonly #tally: Tally;
  readonly #failedEarlier: number;
  readonly #outstanding: Outstanding;
  /** The watcher knows that every run waits for money, and no run has ended since. */
  #outOfMoney = false;

  constructor(work: BatchWork, tally: Tally) {
    this.#work = work;
    this.#tally = tally;
    this.#failedEarlier = tally.failed;
    this.#outstanding = new Outstanding(
      work.client,
      (run, outcome) => this.#finish(resultOf(run, outcome)),
      () => this.report(),
    );
  }

  progress(): BatchProgress {
    return this.#tally.progress(this.#outstanding);
  }

  report(): void {
    const { watcher } = this.#work;
    const now = this.progress();
    watcher.progress(now);
    const stuck = now.waitingForMoney > 0 && now.running === 0 && now.waiting === now.waitingForMoney;
    if (!stuck || this.#outOfMoney) return;
    this.#outOfMoney = true;
    watcher.outOfMoney([...this.#outstanding.waitingForMoney.keys()]);
  }

  /** Writes the results of runs as they end, until the pass stops. */
  async follow(): Promise<void> {
    await this.#outstanding.follow(this.#work.stop);
  }

  /** Submits every line that has no result yet, and stops the pass once each has its own. */
  async submitAll(): Promise<void> {
    const { stop, stopping } = this.#work;
    for await (const group of this.#groups()) {
      await this.#submit(group);
      this.report();
    }
    await this.#outstanding.fewerThan(1, stop);
    stopping.abort(everythingIsDone);
  }

  /** Lines that have no result yet, in groups for which there is room. */
  async *#groups(): AsyncGenerator<BatchLine[]> {
    const { options, source, watcher, stop } = this.#work;
    let group: BatchLine[] = [];
    let room = 0;
    for await (const line of readBatch(source)) {
      if (this.#tally.done.has(line.executionId)) {
        if (line.kind === 'bad') watcher.refused(line.line, badLine(line.problem));
        continue;
      }
      if (group.length === 0) {
        await this.#outstanding.fewerThan(options.window, stop);
        room = Math.min(groupSize, options.window - this.#outstanding.size);
      }
      group.push(line);
      if (group.length < room) continue;
      yield group;
      group = [];
    }
    if (group.length > 0) yield group;
  }

  async #submit(group: readonly BatchLine[]): Promise<void> {
    const { client, source, watcher, stop } = this.#work;
    for (const line of group) if (line.kind === 'bad') await this.#refuse(line, badLine(line.problem));
    const asked = group.filter((line) => line.kind === 'request');
    const requests = asked.map(({ executionId, request }) => ({ ...request, batch: source.name, executionId }));
    const answers = requests.length === 0 ? [] : await submit(client, requests, watcher, stop);
    for (const [index, line] of asked.entries()) {
      const answer = answers[index];
      if (!answer) throw new RunError('internal', `line ${line.line} got no answer`);
      if ('error' in answer) await this.#refuse(line, answer.error);
      else await this.#watch(line, answer);
    }
  }

  async #watch({ request, ...line }: RequestLine, { runId, status }: Accepted): Promise<void> {
    const { client, options } = this.#work;
    const isRetried =
      options.retryFailed === true && status === 'failed' && (await redrive(client, runId, request.deadlineMs));
    await this.#outstanding.add({ ...line, runId }, isTerminalStatus(status) && !isRetried);
  }

  async #refuse(line: BatchLine, error: ErrorInfo): Promise<void> {
    this.#work.watcher.refused(line.line, error);
    await this.#finish({ ...headOf(line), runId: undefined, status: 'failed', text: '', error, costMicrocents: 0 });
  }

  async #finish(result: BatchResult): Promise<void> {
    const { output, options, stopping } = this.#work;
    await output.append(result);
    this.#tally.add(result);
    this.#outOfMoney = false;
    if (this.#tally.failed - this.#failedEarlier >= (options.maxFailures ?? Infinity)) stopping.abort(tooManyFailures);
    this.report();
  }
}

const tooManyFailures = new RunError('cancelled', 'too many lines failed');
const everythingIsDone = new RunError('cancelled', 'every line has its result');

function endOf(stop: AbortSignal): BatchSummary['end'] {
  if (stop.reason === everythingIsDone) return 'finished';
  return stop.reason === tooManyFailures ? 'too_many_failures' : 'interrupted';
}

/** A wrong name would fail every single line, so it is found before the first. Nothing is known until a worker ran. */
async function checkAgent(client: BatchClient, { agent }: BatchSource['defaults']): Promise<void> {
  const known = await client.agents();
  if (agent === undefined || known.length === 0 || known.some(({ id }) => id === agent)) return;
  const ids = known.map(({ id }) => id);
  throw new RunError('validation', thereIsNo('agent', agent, ids));
}

/** Queues a failed run again. False for one that cannot go on: its failure stays its result. */
async function redrive(client: BatchClient, runId: string, deadlineMs: number | undefined): Promise<boolean> {
  try {
    await client.redrive(defined({ runId, deadlineMs }));
    return true;
  } catch (error) {
    if (asRunError(error).code === 'queue_unavailable') throw error;
    return false;
  }
}

/** Counts what a batch has come to, together with what earlier tries of it had. */
class Tally {
  /** Lines that had their result when the batch began. */
  readonly done: ReadonlySet<string>;
  readonly #total: number;
  #finished = 0;
  #failed = 0;
  #refused = 0;
  #costMicrocents = 0;

  constructor(total: number, earlier: readonly EarlierResult[]) {
    this.#total = total;
    this.done = new Set(earlier.map(({ executionId }) => executionId));
    for (const result of earlier) this.add(result);
  }

  get failed(): number {
    return this.#failed;
  }

  add(result: EarlierResult): void {
    this.#finished += 1;
    if (isFailure(result)) this.#failed += 1;
    if (result.runId === undefined) this.#refused += 1;
    this.#costMicrocents += result.costMicrocents;
  }

  progress({
    size,
    waiting,
    waitingForMoney,
  }: Pick<Outstanding, 'size' | 'waiting' | 'waitingForMoney'>): BatchProgress {
    return {
      total: this.#total,
      earlier: this.done.size,
      finished: this.#finished,
      failed: this.#failed,
      refused: this.#refused,
      running: Math.max(0, size - waiting),
      waiting,
      waitingForMoney: [...waitingForMoney.values()].reduce((sum, runs) => sum + runs, 0),
      costMicrocents: this.#costMicrocents,
    };
  }
}

/** `line` is first in every result: so a torn line differs from other text. */
function headOf({ line, id, executionId }: Pick<BatchLine, 'line' | 'id' | 'executionId'>) {
  return { line, id, executionId };
}

function resultOf(run: OutstandingRun, outcome: RunOutcomeView): BatchResult {
  const { status, text, error, unfinished, costMicrocents, usage } = outcome;
  const { incomplete } = outcome.result ?? {};
  return { ...headOf(run), runId: run.runId, status, text, error, unfinished, incomplete, costMicrocents, usage };
}

function badLine(problem: string): ErrorInfo {
  return { code: 'validation', message: `the line ${problem}`, retryable: false };
}
