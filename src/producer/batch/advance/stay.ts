import { inLanes } from '../../../shared/base/collections.ts';
import { assertNever, asRunError, RunError } from '../../../shared/base/errors.ts';
import { newNonce, runIdForExecution } from '../../../shared/base/ids.ts';
import type { BatchStatus } from '../../../shared/contract/batch.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import type { BatchRecord } from '../../../shared/contract/batch-record.ts';
import { isTerminalStatus, type RunOutcomeView } from '../../../shared/contract/run.ts';
import type { BatchChange, Moved, Stay } from '../../../shared/state/batch/batches.ts';
import { untilStopped } from '../../client/stop-signal.ts';
import { Outstanding, pause } from '../outstanding.ts';
import { isEnding, type AdvancePorts, type BatchClient, type FollowedLine, type OwnBatch } from './own-batch.ts';
import { Taking } from './taking.ts';
import { BatchInput, isInputGone } from './input.ts';
import { quoteBatch, validateFile } from './prepare.ts';
import { endBatch } from './end.ts';
import { Pass } from './pass.ts';

/** How often a stay looks at its batch: what callers wish is seen after this at the latest. */
const lookMs = 1_000;
/** Reads of open runs side by side when a stay begins. */
const readsAtOnce = 32;
/** A stay that cannot reach Redis for so long submits nothing before it has looked again. */
const freshMs = 5_000;

/**
 * How a stay ended. `rests`: the batch is paused, or waits with its quote; `elsewhere`: another stay has it, or it has ended;
 * `yielded`: others wait for a process.
 */
export type StayEnd = 'ended' | 'rests' | 'elsewhere' | 'yielded';

/** Why a stay stops before its batch does. */
export const lostBatch = new RunError('lock_lost', 'another process has the batch');
export const yieldTurn = new RunError('worker_lost', 'other batches wait for this process');

/** Advances a batch until it has ended or rests, or the signal aborts. Throws what keeps it from going on, and the signal's reason. */
export async function advanceBatch(
  { batchId, job }: { readonly batchId: string; readonly job: number },
  ports: AdvancePorts,
  signal: AbortSignal,
): Promise<StayEnd> {
  const stay: Stay = { id: batchId, nonce: newNonce() };
  const record = await ports.store.takeOver(stay, job);
  if (!record) return 'elsewhere';
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await new BatchStay(stay, record, ports, stop).run();
  } catch (error) {
    if (stop.signal.reason === yieldTurn) return 'yielded';
    if (stop.signal.reason === lostBatch || error === lostBatch) return 'elsewhere';
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** One stay of a batch on this process: it knows the batch as it was a second ago, and follows the runs of its open lines. */
class BatchStay implements OwnBatch {
  readonly stay: Stay;
  readonly ports: AdvancePorts;
  readonly client: BatchClient;
  readonly outstanding: Outstanding<FollowedLine>;
  readonly taking: Taking;
  readonly input: BatchInput;
  record: BatchRecord;
  readonly #stop: AbortController;
  readonly #beganAt = performance.now();
  #lookedAt = performance.now();
  #changed = Promise.withResolvers<void>();

  constructor(stay: Stay, record: BatchRecord, ports: AdvancePorts, stop: AbortController) {
    this.stay = stay;
    this.record = record;
    this.ports = ports;
    this.#stop = stop;
    this.client = ports.clientFor(record);
    this.input = new BatchInput(record, ports.files, ports.erasedLines);
    this.taking = new Taking(this);
    this.outstanding = new Outstanding(
      this.client,
      (line, outcome) => this.#ended(line, outcome),
      () => {},
    );
  }

  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  async run(): Promise<StayEnd> {
    const looking = this.#guarded(this.#lookAgain());
    const following = this.#guarded(this.outstanding.follow(this.stop));
    try {
      await this.#followOpen();
      return await this.#work();
    } finally {
      this.#stop.abort(this.stop.reason ?? doneReason);
      await Promise.all([looking, following]);
    }
  }

  /** Looks at the batch now. Throws when another stay has it. */
  async look(): Promise<BatchRecord> {
    const { outstanding } = this;
    const forMoney = [...outstanding.waitingForMoney.values()].reduce((sum, runs) => sum + runs, 0);
    const record = await this.ports.store.look(this.stay, { forMoney, forPeople: outstanding.waitingForPeople });
    if (!record) throw this.lose();
    const before = this.record.status;
    this.record = record;
    this.#lookedAt = performance.now();
    if (record.status !== before) this.ports.onStatus(record, before);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
    return record;
  }

  /** Looks first where it is unknown whether the batch is still ours. */
  async sure(): Promise<void> {
    if (performance.now() - this.#lookedAt > freshMs) await this.look();
  }

  /** Stops the stay: another one has the batch. */
  lose(): RunError {
    this.#stop.abort(lostBatch);
    return lostBatch;
  }

  /** Moves on from the status that is known. Answers false when the batch is not as it was. */
  async move(to: BatchStatus, change: BatchChange = {}, wholly = false): Promise<boolean> {
    return await this.#since(await this.ports.store.move(this.stay, this.record, to, change, wholly));
  }

  async inputGone({ code, message }: RunError): Promise<undefined> {
    if (isEnding(this.record)) return;
    const errors = [{ code, message, param: 'input_file_id' }];
    await this.move('finalizing', { ending: 'failed', reason: '', errors, finalizingAt: this.ports.clock.now() });
  }

  /** Resolves at the next look, or when a line ended. */
  async news(): Promise<void> {
    await untilStopped(this.#changed.promise, this.stop);
    this.stop.throwIfAborted();
  }

  async #since(moved: Moved): Promise<boolean> {
    if (moved === 'lost') throw this.lose();
    await this.look();
    return moved === 'moved';
  }

  /** Its error ends the stay. */
  async #guarded(work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.#stop.abort(error);
    }
  }

  async #lookAgain(): Promise<void> {
    for (;;) {
      await pause(lookMs, this.stop);
      if (this.stop.aborted) return;
      await this.look();
      await this.#expire();
      const { ports } = this;
      if (performance.now() - this.#beganAt > ports.turnMs && (await ports.othersWait())) this.#stop.abort(yieldTurn);
    }
  }

  /** Begins the end of a batch whose time is over. */
  async #expire(): Promise<void> {
    const { record, ports } = this;
    const now = ports.clock.now();
    if (isEnding(record) || isEndedBatch(record.status) || now < record.expiresAt) return;
    await this.move('finalizing', { ending: 'expired', reason: '', finalizingAt: now });
  }

  async #work(): Promise<StayEnd> {
    // First of all: one that rests would be left again.
    await this.#expire();
    for (;;) {
      this.stop.throwIfAborted();
      const end = await this.#step(this.record.status).catch((error: unknown) => {
        if (!isInputGone(error)) throw error;
        return this.inputGone(error);
      });
      if (end) return end;
    }
  }

  /** Answers how the stay ended, where it did. */
  async #step(status: BatchStatus): Promise<StayEnd | undefined> {
    switch (status) {
      case 'validating':
        await validateFile(this);
        return undefined;
      case 'quoting':
        await quoteBatch(this);
        return undefined;
      case 'in_progress':
        await this.#runLines();
        return undefined;
      case 'paused':
      case 'quoted':
        return (await this.#rests()) ? 'rests' : undefined;
      case 'finalizing':
      case 'cancelling':
        await endBatch(this);
        return 'ended';
      case 'completed':
      case 'failed':
      case 'expired':
      case 'cancelled':
        return 'ended';
      default:
        return assertNever(status);
    }
  }

  /** Runs every line that has no outcome. Returns when each has one, or the batch is not as it was. */
  async #runLines(): Promise<void> {
    const pass = new Pass(this, () => true);
    if (!(await pass.run()) || !(await pass.settled())) return;
    const change = { ending: 'completed', finalizingAt: this.ports.clock.now() } as const;
    await this.move('finalizing', change, true);
  }

  /** True once nothing is left to do until a caller wishes something. */
  async #rests(): Promise<boolean> {
    if (this.outstanding.size > 0) {
      await this.news();
      return false;
    }
    const left = await this.ports.store.leave(this.stay);
    if (left === 'lost') throw this.lose();
    if (left === 'changed') await this.look();
    return left === 'moved';
  }

  /** Follows the runs that an earlier stay has begun. Those of lines that never got theirs are begun by the next pass. */
  async #followOpen(): Promise<void> {
    const { round, tenant } = this.record;
    const open = [...(await this.ports.store.open(this.stay.id))];
    await inLanes(open, readsAtOnce, async ([place, line]) => {
      if (this.stop.aborted || (round > 0 && line.round !== round)) return;
      const runId = runIdForExecution(tenant, line.executionId);
      const outcome = await this.#outcomeOf(runId);
      if (outcome) await this.outstanding.add({ place, runId, open: line }, isTerminalStatus(outcome.status));
    });
  }

  async #outcomeOf(runId: string): Promise<RunOutcomeView | undefined> {
    return await this.client.result(runId, { waitMs: 0 }).catch((thrown: unknown) => {
      const error = asRunError(thrown);
      if (error.code === 'run_not_found') return undefined;
      throw error;
    });
  }

  async #ended({ place, open }: FollowedLine, outcome: RunOutcomeView): Promise<void> {
    await this.taking.ended(place, open, outcome);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

const doneReason = new RunError('cancelled', 'the stay is over');
