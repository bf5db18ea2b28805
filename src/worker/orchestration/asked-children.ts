import type { ChildEnd } from '../../shared/contract/control.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { FlowLabel } from '../../shared/contract/message.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import type { PlannedRun } from '../tools/tool.ts';
import type { SuspendedWait } from '../turn/turn-ports.ts';
import type { AskedChild, ChildAnswer } from './orchestration.ts';

interface Child {
  readonly id: string;
  readonly asked: AskedChild;
  /** Of its input. */
  readonly flow: FlowLabel;
  readonly answer: PromiseWithResolvers<ChildAnswer>;
}

type OrchestrationWait = NonNullable<SuspendedWait['orchestration']>;

/**
 * The runs that an orchestration has started and has no answer of, in the order in which it asked. `begunAt`: by the journal, in
 * milliseconds since the epoch; undefined for a run that has not begun.
 */
export function askedChildren(begunAt: (id: string) => number | undefined) {
  const children = new Map<string, Child>();
  const all = () => [...children.values()];
  /** Those that work although their answer is not wanted any more. */
  const unwanted = (): string[] => all().flatMap(({ id, asked }) => (asked.signal?.aborted ? [id] : []));
  return {
    unwanted,
    size: () => children.size,
    async ask(id: string, asked: AskedChild, flow: FlowLabel): Promise<ChildAnswer> {
      const never = { kind: 'never', runId: id } as const;
      if (asked.signal?.aborted) return never;
      const answer = Promise.withResolvers<ChildAnswer>();
      children.set(id, { id, asked, flow, answer });
      const onAbort = () => {
        // Who works already is stopped at the next wait, and answers.
        if (begunAt(id) !== undefined) return;
        children.delete(id);
        answer.resolve(never);
      };
      asked.signal?.addEventListener('abort', onAbort, { once: true });
      return await answer.promise;
    },
    /** Throws `run_state_malformed` where the orchestration did not ask for this one. */
    answer(end: ChildEnd): void {
      const child = children.get(end.id);
      if (!child) throw notAsked(end.id);
      children.delete(end.id);
      child.answer.resolve({ kind: 'ended', runId: end.id, end });
    },
    /** Which children work from now on, and which begin when others end. */
    wait(nowMs: number): Pick<OrchestrationWait, 'children' | 'group'> & { readonly pending: readonly PendingItem[] } {
      const groups = new Set(all().map(({ asked }) => asked.group));
      const [group] = groups;
      const begun = all().filter(({ id }) => begunAt(id) !== undefined);
      const others = all().filter(({ id }) => begunAt(id) === undefined);
      const width = Math.min(...all().map(({ asked }) => asked.group?.width ?? children.size));
      const free = Math.max(0, width - begun.length);
      const working = [...begun, ...others.slice(0, free)];
      const isWanted = unwanted().length === 0;
      return {
        pending: working.map(({ id, asked: { agentId } }) => {
          return { kind: 'child', id, args: { agentId }, requestedAt: new Date(begunAt(id) ?? nowMs).toISOString() };
        }),
        children: working.map(planned),
        ...(group &&
          groups.size === 1 && { group: { later: others.slice(free).map(planned), first: group.first && isWanted } }),
      };
    },
  };
}
export type AskedChildren = ReturnType<typeof askedChildren>;

function planned({ id, flow, asked: { agentId, input, durationMs } }: Child): PlannedRun {
  const bound = durationMs === undefined ? {} : { maxWorkMs: durationMs };
  return { id, spec: { agentId, input, flow, expose: 'all', ...bound } };
}

/** An orchestration that is not the one which the journal is of. */
export function notAsked(what: string): RunError {
  return new RunError(
    'run_state_malformed',
    `the orchestration does not ask for ${what} any more, which it was answered before`,
  );
}
