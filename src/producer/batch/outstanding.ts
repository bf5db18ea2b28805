import { isAboutCall, pendingNameOf } from '../../shared/contract/decisions.ts';
import { asRunError } from '../../shared/base/errors.ts';
import { isTerminal, type PendingView, type RunEvent } from '../../shared/contract/event.ts';
import { isTerminalStatus, type RunOutcomeView, type RunView } from '../../shared/contract/run.ts';
import { Stop, untilStopped } from '../client/stop-signal.ts';

/** What following runs needs of a client. */
export interface RunsToFollow {
  firehose(options: { readonly signal: AbortSignal }): AsyncIterable<RunEvent>;
  get(runId: string): Promise<RunView>;
  result(runId: string, options: { readonly waitMs: number }): Promise<RunOutcomeView>;
}

/** A run of a file of lines that has been accepted and whose end is not written yet. */
export interface OutstandingRun {
  readonly runId: string;
  readonly line: number;
  readonly id: string | undefined;
  readonly executionId: string;
}

/** How often the runs without an event are read; sooner at first, as the feed begins a little later than the runs. */
const sweepMs = 5_000;
const firstSweepMs = 500;
const parallelReads = 32;
const maxEndedEarly = 10_000;

/**
 * The runs of a batch that are under way. Costs one subscription, however many they are: the live feed of all runs says
 * when one may have ended, and because a feed can miss things, all are looked at from time to time.
 */
export class Outstanding<Run extends { readonly runId: string } = OutstandingRun> {
  readonly #client: RunsToFollow;
  readonly #onEnd: (run: Run, outcome: RunOutcomeView) => Promise<void>;
  readonly #onWaiting: () => void;
  readonly #runs = new Map<string, Run>();
  /** Suspended runs and what for, as far as it is known. */
  readonly #waiting = new Map<string, PendingView | undefined>();
  /** Runs whose end is being written. */
  readonly #reporting = new Set<string>();
  /** Runs that ended before this process knew that they belong to the batch; most do not. */
  readonly #endedEarly = new Set<string>();
  #changed = Promise.withResolvers<void>();

  /**
   * `onEnd` is called once for each run, which counts until it has resolved; `onWaiting` when a run is
   * suspended or goes on.
   */
  constructor(
    client: RunsToFollow,
    onEnd: (run: Run, outcome: RunOutcomeView) => Promise<void>,
    onWaiting: () => void,
  ) {
    this.#client = client;
    this.#onEnd = onEnd;
    this.#onWaiting = onWaiting;
  }

  /** Runs whose end is not known yet. */
  get size(): number {
    return this.#runs.size - this.#reporting.size;
  }

  /** Runs that are suspended. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The accounts that runs wait for, each with how many do. */
  get waitingForMoney(): ReadonlyMap<string, number> {
    const accounts = new Map<string, number>();
    for (const item of this.#waiting.values()) {
      if (item?.kind !== 'budget') continue;
      const account = pendingNameOf(item);
      accounts.set(account, (accounts.get(account) ?? 0) + 1);
    }
    return accounts;
  }

  /** Runs that wait for what people say about a call. */
  get waitingForPeople(): number {
    return [...this.#waiting.values()].filter((item) => item !== undefined && isAboutCall(item)).length;
  }

  /** Those under watch whose end is not known yet. */
  get runs(): readonly Run[] {
    return [...this.#runs.values()].filter(({ runId }) => !this.#reporting.has(runId));
  }

  has(runId: string): boolean {
    return this.#runs.has(runId);
  }

  /** Takes a run under watch; one that may have ended already is looked at before this resolves. */
  async add(run: Run, hasEnded: boolean): Promise<void> {
    this.#runs.set(run.runId, run);
    if (hasEnded || this.#endedEarly.delete(run.runId)) await this.#look(run.runId);
  }

  /** Resolves when there are fewer than `limit`; rejects with the signal's reason. */
  async fewerThan(limit: number, signal: AbortSignal): Promise<void> {
    while (this.#runs.size >= limit && !signal.aborted) await untilStopped(this.#changed.promise, signal);
    signal.throwIfAborted();
  }

  /** Listens until the signal aborts. Rejects only with what `onEnd` throws, or a defect. */
  async follow(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#listen(signal), this.#sweep(signal)]);
  }

  async #listen(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await using looks = new Looks();
        for await (const event of this.#client.firehose({ signal })) {
          this.#noteWait(event);
          if (isTerminal(event)) await looks.begin(this.#noteEnd(event.runId));
        }
      } catch (error) {
        if (asRunError(error).code !== 'queue_unavailable') throw error;
        await pause(sweepMs, signal);
      }
    }
  }

  async #noteEnd(runId: string): Promise<void> {
    if (this.#runs.has(runId)) return await this.#look(runId);
    this.#endedEarly.add(runId);
    const [oldest] = this.#endedEarly;
    if (this.#endedEarly.size > maxEndedEarly && oldest !== undefined) this.#endedEarly.delete(oldest);
  }

  #noteWait(event: RunEvent): void {
    if (!this.#runs.has(event.runId)) return;
    if (event.type === 'run.suspended') this.#setWaiting(event.runId, { item: event.pending[0] });
    else if (event.type === 'run.resumed') this.#setWaiting(event.runId, undefined);
  }

  #setWaiting(runId: string, suspended: { readonly item: PendingView | undefined } | undefined): void {
    const known = this.#waiting.get(runId);
    const isNews = suspended
      ? !this.#waiting.has(runId) ||
        known?.id !== suspended.item?.id ||
        known?.toolCallId !== suspended.item?.toolCallId
      : this.#waiting.has(runId);
    if (suspended) this.#waiting.set(runId, suspended.item);
    else this.#waiting.delete(runId);
    if (isNews) this.#onWaiting();
  }

  async #sweep(signal: AbortSignal): Promise<void> {
    for (let ms = firstSweepMs; ; ms = Math.min(2 * ms, sweepMs)) {
      await pause(ms, signal);
      if (signal.aborted) return;
      const runIds = this.#runs.keys();
      const reader = async () => {
        for (const runId of runIds) if (!signal.aborted) await this.#look(runId);
      };
      await Promise.all(Array.from({ length: parallelReads }, reader));
    }
  }

  /** Reads one run and reports its end. While Redis is away nothing changes: the next sweep reads again. */
  async #look(runId: string): Promise<void> {
    const outcome = await this.#read(runId);
    const run = this.#runs.get(runId);
    // The feed and a sweep may look at the same time; the first one reports.
    if (!run || !outcome || this.#reporting.has(runId)) return;
    if (!isTerminalStatus(outcome.status)) return await this.#noteWaiting(runId, outcome.status === 'suspended');
    this.#reporting.add(runId);
    this.#setWaiting(runId, undefined);
    await this.#onEnd(run, outcome);
    this.#reporting.delete(runId);
    this.#runs.delete(runId);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async #noteWaiting(runId: string, suspended: boolean): Promise<void> {
    const item = suspended ? (this.#waiting.get(runId) ?? (await this.#pendingOf(runId))) : undefined;
    // It may have ended meanwhile.
    if (this.#runs.has(runId) && !this.#reporting.has(runId)) this.#setWaiting(runId, suspended ? { item } : undefined);
  }

  /** What a suspended run waits for; undefined when it cannot be read now. */
  async #pendingOf(runId: string): Promise<PendingView | undefined> {
    return await this.#client.get(runId).then(
      (view) => view.pending[0],
      () => undefined,
    );
  }

  async #read(runId: string): Promise<RunOutcomeView | undefined> {
    try {
      return await this.#client.result(runId, { waitMs: 0 });
    } catch (thrown) {
      const error = asRunError(thrown);
      if (error.code === 'queue_unavailable') return undefined;
      const { code, message, retryable } = error;
      return { runId, status: 'failed', text: '', error: { code, message, retryable }, costMicrocents: 0, steps: 0 };
    }
  }
}

/** Looks at runs side by side: so many of them that the feed is read as fast as it comes. */
class Looks implements AsyncDisposable {
  readonly #open = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;

  /** Resolves when there is room for another. Throws what an earlier one threw. */
  async begin(look: Promise<void>): Promise<void> {
    const open: Promise<void> = look
      .catch((error: unknown) => void (this.#failure ??= { error }))
      .finally(() => this.#open.delete(open));
    this.#open.add(open);
    if (this.#open.size >= parallelReads) await Promise.race(this.#open);
    if (this.#failure) throw this.#failure.error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#open);
    if (this.#failure) throw this.#failure.error;
  }
}

/** Waits without throwing; shorter when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  using stop = new Stop({ signals: [signal], afterMs: ms });
  await untilStopped(new Promise(() => {}), stop.signal);
}
