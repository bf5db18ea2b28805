import type { ChildEnd } from '../../shared/contract/control.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import type { PlannedRun } from '../tools/tool.ts';
import type { SuspendedWait } from '../turn/turn-ports.ts';
import type { AskedChild, ChildAnswer } from './orchestration.ts';

interface Child {
  readonly id: string;
  readonly asked: AskedChild;
  readonly answer: PromiseWithResolvers<ChildAnswer>;
}

type OrchestrationWait = NonNullable<SuspendedWait['orchestration']>;

/** The runs that an orchestration has started and has no answer of, in the order in which it asked. */
export class AskedChildren {
  readonly #children = new Map<string, Child>();
  readonly #begunAt: (id: string) => number | undefined;

  /** `begunAt`: by the journal, in milliseconds since the epoch; undefined for a run that has not begun. */
  constructor(begunAt: (id: string) => number | undefined) {
    this.#begunAt = begunAt;
  }

  get size(): number {
    return this.#children.size;
  }

  async ask(id: string, asked: AskedChild): Promise<ChildAnswer> {
    const never = { kind: 'never', runId: id } as const;
    if (asked.signal?.aborted) return never;
    const answer = Promise.withResolvers<ChildAnswer>();
    this.#children.set(id, { id, asked, answer });
    const onAbort = () => {
      // Who works already is stopped at the next wait, and answers.
      if (this.#begunAt(id) !== undefined) return;
      this.#children.delete(id);
      answer.resolve(never);
    };
    asked.signal?.addEventListener('abort', onAbort, { once: true });
    return await answer.promise;
  }

  /** Throws `run_state_malformed` where the orchestration did not ask for this one. */
  answer(end: ChildEnd): void {
    const child = this.#children.get(end.id);
    if (!child) throw notAsked(end.id);
    this.#children.delete(end.id);
    child.answer.resolve({ kind: 'ended', runId: end.id, end });
  }

  /** Those that work although their answer is not wanted any more. */
  unwanted(): string[] {
    return this.#all.filter(({ asked }) => asked.signal?.aborted).map(({ id }) => id);
  }

  /** Which children work from now on, and which begin when others end. */
  wait(nowMs: number): Pick<OrchestrationWait, 'children' | 'group'> & { readonly pending: readonly PendingItem[] } {
    const all = this.#all;
    const groups = new Set(all.map(({ asked }) => asked.group));
    const [group] = groups;
    const begun = all.filter(({ id }) => this.#begunAt(id) !== undefined);
    const others = all.filter(({ id }) => this.#begunAt(id) === undefined);
    const free = Math.max(0, Math.min(...all.map(({ asked }) => asked.group?.width ?? all.length)) - begun.length);
    const working = [...begun, ...others.slice(0, free)];
    const isWanted = this.unwanted().length === 0;
    return {
      pending: working.map(({ id, asked: { agentId } }) => ({
        kind: 'child',
        id,
        args: { agentId },
        requestedAt: new Date(this.#begunAt(id) ?? nowMs).toISOString(),
      })),
      children: working.map(planned),
      ...(group &&
        groups.size === 1 && { group: { later: others.slice(free).map(planned), first: group.first && isWanted } }),
    };
  }

  get #all(): readonly Child[] {
    return [...this.#children.values()];
  }
}

function planned({ id, asked: { agentId, input, durationMs } }: Child): PlannedRun {
  return { id, spec: { agentId, input, expose: 'all', ...(durationMs !== undefined && { maxWorkMs: durationMs }) } };
}

/** An orchestration that is not the one which the journal is of. */
export function notAsked(what: string): RunError {
  return new RunError(
    'run_state_malformed',
    `the orchestration does not ask for ${what} any more, which it was answered before`,
  );
}
