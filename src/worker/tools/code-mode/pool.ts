import { createHash } from 'node:crypto';
import type { Clock } from '../../../shared/base/clock.ts';
import { orLate } from '../../../shared/base/deadline.ts';
import type { Log } from '../../../shared/base/log.ts';
import { converse, type ScriptOutcome, type ScriptRequest } from './conversation.ts';
import { ScriptProcess, type ScriptFailure } from './process.ts';
import type { RunOrder } from './protocol.ts';

/** How long a script waits for a process before the pool counts as busy. */
export const maxProcessWaitMs = 30_000;
const startMs = 20_000;
const maxWaiting = 1_000;
/** Afterwards its process is replaced. */
const maxScripts = 100;
/** A process without a script for so long ends. */
const idleMs = 60_000;

/** A place for one process, and the script in it. */
interface Lane {
  process: ScriptProcess | undefined;
  isBusy: boolean;
  idle: NodeJS.Timeout | undefined;
}

interface Waiter {
  readonly tenant: string;
  take(lane: Lane): void;
}

/**
 * Runs untrusted scripts, each in an engine of its own inside a process of the pool. Processes are started when they are first
 * needed. Disposing ends them all, whatever they do.
 */
export class ScriptPool implements AsyncDisposable {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #lanes: readonly Lane[];
  readonly #waiters = new Set<Waiter>();
  readonly #dying = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  constructor({ size, log, clock }: { readonly size: number; readonly log: Log; readonly clock: Clock }) {
    this.#log = log;
    this.#clock = clock;
    this.#lanes = Array.from({ length: size }, () => ({ process: undefined, isBusy: false, idle: undefined }));
  }

  /** Never rejects. A script waits up to `maxProcessWaitMs` for a process; its own time begins when it has one. */
  async run(request: ScriptRequest): Promise<ScriptOutcome> {
    const { limits, source } = request;
    if (source.length > limits.maxSourceChars)
      return failure('source', `the script has ${source.length} characters, at most ${limits.maxSourceChars}`);
    const signal = AbortSignal.any([request.signal, this.#closing.signal]);
    const lane = await this.#lane(request.tenant, signal);
    if (typeof lane === 'string') return failure(lane, whyNoProcess[lane] ?? 'there is no process');
    let left: Promise<void>;
    let outcome: ScriptOutcome;
    try {
      const process = await this.#processIn(lane, request.tenant, signal);
      if (typeof process === 'string') return failure(process, whyNoProcess[process] ?? 'there is no process');
      process.scripts++;
      const ending = await converse(process, orderOf(request), { ...request, signal }, this.#clock);
      if (ending.why) this.#log.warn({ why: ending.why, pid: process.id }, 'a script process died');
      ({ left, outcome } = ending);
      if (ending.isSpent || process.scripts >= maxScripts) this.#discard(lane, 'it has done its work');
    } finally {
      this.#release(lane);
    }
    await left;
    return outcome;
  }

  /** Of the processes that live. */
  processIds(): readonly number[] {
    return this.#lanes.flatMap(({ process }) => (process?.id === undefined || process.isGone ? [] : [process.id]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    for (const lane of this.#lanes) this.#discard(lane, 'the pool closes');
    await Promise.all(this.#dying);
  }

  async #lane(tenant: string, signal: AbortSignal): Promise<Lane | ScriptFailure> {
    if (signal.aborted) return 'aborted';
    const free = this.#freeLane(tenant);
    if (free) return taken(free);
    if (this.#waiters.size >= maxWaiting) return 'busy';
    const { promise, resolve } = Promise.withResolvers<Lane | ScriptFailure>();
    const waiter: Waiter = { tenant, take: resolve };
    this.#waiters.add(waiter);
    // Off the list, and the lane all the same if it came before that: a lane must not go to a waiter that has left.
    const abandon = (why: ScriptFailure) => {
      this.#waiters.delete(waiter);
      resolve(why);
      return promise;
    };
    const race = { clock: this.#clock, signal };
    return await orLate(maxProcessWaitMs, promise, () => abandon('busy'), race).catch(() => abandon('aborted'));
  }

  /** Rather one whose process is this tenant's, then one without a process, then one whose process is replaced. */
  #freeLane(tenant: string): Lane | undefined {
    const free = this.#lanes.filter((lane) => !lane.isBusy);
    const own = free.find((lane) => lane.process?.tenant === tenant && !lane.process.isGone);
    return own ?? free.find((lane) => !lane.process || lane.process.isGone) ?? free[0];
  }

  #release(lane: Lane): void {
    lane.isBusy = false;
    lane.idle = setTimeout(() => this.#discard(lane, 'it is not needed'), idleMs).unref();
    const [next] = this.#waiters;
    if (!next) return;
    this.#waiters.delete(next);
    next.take(taken(this.#freeLane(next.tenant) ?? lane));
  }

  async #processIn(lane: Lane, tenant: string, signal: AbortSignal): Promise<ScriptProcess | ScriptFailure> {
    if (signal.aborted) return 'aborted';
    if (lane.process?.tenant === tenant && !lane.process.isGone) return lane.process;
    this.#discard(lane, 'it belongs to another tenant');
    const { promise: ready, resolve } = Promise.withResolvers<string | undefined>();
    try {
      const process = new ScriptProcess(tenant, {
        message: (message) => resolve(message.t === 'ready' ? undefined : 'it spoke too early'),
        gone: resolve,
      });
      lane.process = process;
      const late = () => `it was not ready within ${startMs} ms`;
      const why = await orLate(startMs, ready, late, { clock: this.#clock, signal }).catch(() => 'aborted');
      process.listen(undefined);
      if (why === undefined) return process;
      this.#discard(lane, why);
      if (signal.aborted) return 'aborted';
      this.#log.error({ why }, 'a script process could not be started');
    } catch (error) {
      this.#log.error({ err: error }, 'a script process could not be started');
    }
    return 'unavailable';
  }

  #discard(lane: Lane, why: string): void {
    clearTimeout(lane.idle);
    const { process } = lane;
    lane.process = undefined;
    if (!process) return;
    process.kill(why);
    const dying = process.exited();
    this.#dying.add(dying);
    void dying.then(() => this.#dying.delete(dying));
  }
}

/** No other script gets it from here on. */
function taken(lane: Lane): Lane {
  clearTimeout(lane.idle);
  lane.isBusy = true;
  return lane;
}

const whyNoProcess: Partial<Record<ScriptFailure, string>> = {
  aborted: 'the call was aborted',
  busy: `all script processes were busy for ${maxProcessWaitMs / 1_000} seconds`,
  unavailable: 'no process for scripts could be started on this worker',
};

function failure(reason: ScriptFailure, message: string): ScriptOutcome {
  return { ok: false, reason, message, logs: [], calls: 0 };
}

function orderOf({ source, tools, limits, nowMs, seed }: ScriptRequest): RunOrder {
  const digest = createHash('sha256').update(seed).digest();
  return { t: 'run', source, tools, limits, nowMs, seed: [0, 4, 8, 12].map((at) => digest.readUInt32LE(at)) };
}
