import type { EventBody } from '../../../../src/shared/contract/event.ts';
import type { Json } from '../../../../src/shared/base/json-value.ts';
import type { TaskEval, TaskOutcome, TaskResult } from '../../../../src/shared/contract/orchestration/task.ts';
import type { AgentAdapter, Decision } from '../../../../src/worker/agents/adapter.ts';
import type { TaskHost } from '../../../../src/worker/orchestration/task/host.ts';

export interface Counter {
  readonly count: number;
}
export type Add = { readonly add: number };

/** Counts to three: each action adds, the check compares. `calls` has the functions in the order of their calls. */
export function counting(over: Partial<AgentAdapter<Counter, Add>> = {}) {
  const calls: string[] = [];
  let count = 0;
  const adapter: AgentAdapter<Counter, Add> = {
    observe: () => ({ count }),
    validate: ({ state }): TaskEval[] => [
      { id: 'three', passed: state.count >= 3, score: Math.min(1, state.count / 4) },
    ],
    decide: ({ state }): Decision<Add> =>
      state.count < 3 ? { type: 'act', action: { add: 1 } } : { type: 'stop', reason: 'counted to three' },
    act: ({ action }) => {
      count += action.add;
      return { count };
    },
    ...over,
  };
  const logged: Record<string, unknown> = {};
  for (const [name, work] of Object.entries(adapter)) {
    logged[name] =
      typeof work === 'function'
        ? (context: never) => {
            calls.push(name);
            return (work as (context: never) => unknown)(context);
          }
        : work;
  }
  return { adapter: logged as unknown as AgentAdapter<Counter, Add>, calls };
}

/** A host that keeps the events that it gets, and whose clock stands still unless it is moved. */
export function hostWorld(over: Partial<TaskHost> = {}) {
  const events: EventBody[] = [];
  const clock = { nowMs: Date.UTC(2026, 0, 1) };
  const names: string[] = [];
  const host: Partial<TaskHost> = {
    now: () => clock.nowMs,
    emit: (event) => void events.push(event),
    step: (name, fn) => {
      names.push(name);
      return fn();
    },
    ...over,
  };
  return { host, events, clock, names, types: () => events.map(({ type }) => type) };
}

/** A host that repeats the answers of an earlier run of the task, as long as there are some. */
export function replaying(journal: Map<string, Json>, crashAt?: string) {
  return hostWorld({
    step: async (name, fn) => {
      if (name === crashAt) throw new Error('the worker is gone');
      const known = journal.get(name);
      if (known !== undefined) return known;
      const answer = JSON.parse(JSON.stringify(await fn())) as Json;
      journal.set(name, answer);
      return answer;
    },
  });
}

/** The outcome of a task that has ended. */
export function ended(outcome: TaskOutcome): TaskResult {
  if (outcome.status === 'suspended') throw new Error(`the task asks: ${outcome.question}`);
  return outcome;
}
