import { RunError } from '../../shared/base/errors.ts';
import type { DecisionInput } from '../../shared/contract/control.ts';
import { isTerminal, type RunEvent } from '../../shared/contract/event.ts';
import { outcomeViewOf, type RunRecord } from '../../shared/contract/run.ts';
import type { AgentStream } from './agent-handle.ts';
import { type OnPending, cancelOn, decideHere, drive, type LocalDeps } from './drive.ts';
import { refuseEnded, type RunState } from './run-state.ts';

/** The turns of one handle: one at a time, each followed to its end. */
export class HandleTurns {
  readonly #deps: LocalDeps;
  readonly #agentId: string;
  readonly #onPending: OnPending | undefined;
  #busy = false;

  constructor(deps: LocalDeps, agentId: string, onPending: OnPending | undefined) {
    this.#deps = deps;
    this.#agentId = agentId;
    this.#onPending = onPending;
  }

  refuseSecond(): void {
    if (this.#busy) throw new RunError('concurrent_run', `agent ${this.#agentId} already has a run in progress`);
  }

  /** A new run. With `refusesLockedThread` it fails where another run waits on its thread. */
  begin(record: RunRecord, refusesLockedThread: boolean, signal: AbortSignal | undefined): AgentStream {
    const ready = async () => {
      if (refusesLockedThread) await this.#refuseLockedThread(record);
      this.#deps.ports.create(record);
    };
    return this.#follow(record.runId, ready, signal);
  }

  /** A run that another process has begun. Throws `already_terminal`. */
  restore(
    saved: RunState,
    directive: DecisionInput | undefined,
    by: string | undefined,
    signal: AbortSignal | undefined,
  ): AgentStream {
    refuseEnded(saved);
    const { runId } = saved.record;
    const ready = async () => {
      await this.#deps.ports.restore(saved);
      if (directive) await decideHere(runId, directive, by, this.#deps.ports);
    };
    return this.#follow(runId, ready, signal);
  }

  /** A run of this handle that waits for this decision. */
  resume(runId: string, decision: DecisionInput, by: string | undefined): AgentStream {
    return this.#follow(runId, () => decideHere(runId, decision, by, this.#deps.ports), undefined);
  }

  /** A run that waits for something outside keeps its thread, and no one here would wake the run that waits for the thread. */
  async #refuseLockedThread({
    runId,
    tenant,
    request: { agent: agentId, thread: threadId },
  }: RunRecord): Promise<void> {
    if (threadId === undefined) return;
    const { threads } = this.#deps.ports;
    const entered = await threads.enter({ tenant, threadId, runId, agentId, onBusy: 'reject' });
    if (entered.kind === 'refused_suspended' || entered.kind === 'refused_busy')
      throw new RunError('thread_suspended', `run ${entered.lockOwner} waits for a decision on thread ${threadId}`);
  }

  /** Drives the run that `ready` prepares, and hands out its events. What goes wrong is in the result. */
  #follow(runId: string, ready: () => Promise<void>, signal: AbortSignal | undefined): AgentStream {
    const { ports } = this.#deps;
    const feed = new Feed();
    const subscription = ports.onEvents((id, events) => {
      if (id === runId) feed.push(events);
    });
    this.#busy = true;
    const result = (async () => {
      await ready();
      // Until now there was no run to be cancelled.
      using _ = cancelOn(signal, runId, ports);
      return outcomeViewOf(await drive(runId, this.#deps, this.#onPending));
    })().finally(() => {
      this.#busy = false;
      subscription[Symbol.dispose]();
      feed.end();
    });
    // A caller that only reads events must not get an unhandled rejection; the failure is still in `result`.
    result.catch(() => {});
    return { result, [Symbol.asyncIterator]: () => feed.read() };
  }
}

/** Hands the events of a run to one reader in order. Bounded by what one run of one process can emit. */
class Feed {
  readonly #events: RunEvent[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  push(events: readonly RunEvent[]): void {
    this.#events.push(...events);
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *read(): AsyncGenerator<RunEvent> {
    for (let at = 0; ; at++) {
      while (at >= this.#events.length) {
        if (this.#ended) return;
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
      const event = this.#events[at] as RunEvent;
      yield event;
      if (isTerminal(event)) return;
    }
  }
}
