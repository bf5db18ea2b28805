import { problemsOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError } from '../../shared/base/errors.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { publicId } from '../../shared/base/ids.ts';
import type { Json } from '../../shared/base/json-value.ts';
import { declared, madeWith } from './define-judge.ts';
import {
  taskLimits,
  type TaskDecision,
  type TaskEval,
  type TaskLimits,
  type TaskSpec,
  type TaskStep,
} from '../../shared/contract/orchestration/task.ts';

/** What every function of an adapter gets. All of it is frozen. */
export interface TaskContext {
  readonly task: TaskSpec;
  readonly knowledge: Readonly<Record<string, unknown>>;
  /** The steps so far. In a long task the oldest ones are `cut`. */
  readonly history: readonly TaskStep[];
  /** The step that is being prepared or made, from 1. */
  readonly stepNumber: number;
  readonly spentMicrocents: number;
  /** Absent: there is no cap. */
  readonly remainingMicrocents?: number;
  /** Aborts with the task and when its time is over. What is answered later does not count. */
  readonly signal: AbortSignal;
  /** The same when this call is made again, for instance after a crash. Of an id that names no other task. */
  readonly idempotencyKey: string;
  /**
   * Counts what a model call cost: give it every event of a run that this call starts. All but `cost.updated` are ignored,
   * and so is what comes after the call has answered.
   */
  readonly charge: (event: EventBody) => void;
}

/** A task context with what was observed, and what the checks say about it. */
export interface TaskView<State> extends TaskContext {
  readonly state: State;
  readonly evals: readonly TaskEval[];
}

/** What `decide` answers. */
export type Decision<Action> =
  | Exclude<TaskDecision, { type: 'act' }>
  | { readonly type: 'act'; readonly action: Action; readonly reason?: string };

/** What `shouldStop` answers. `pass` absent is false. */
export interface StopVerdict {
  readonly stop: boolean;
  readonly pass?: boolean;
  readonly reason?: string;
  readonly score?: number;
}

/**
 * What a task is made of. It is the user's; the loop around it is ours. Each function answers with JSON, at once or later;
 * anything else ends the task with `validation`. No function is called while another one works.
 */
export interface AgentAdapter<State = unknown, Action = unknown, Result = unknown> {
  readonly id?: string;
  /** How things stand: at most 256 KiB of JSON. Must change nothing. */
  observe(context: TaskContext): State | Promise<State>;
  /** Checks of what was observed: at most 100, and 64 KiB. */
  validate(context: TaskContext & { readonly state: State }): readonly TaskEval[] | Promise<readonly TaskEval[]>;
  /** The next action (at most 64 KiB), a question, or the end. */
  decide(context: TaskView<State>): Decision<Action> | Promise<Decision<Action>>;
  /** Carries an action out. What it answers, at most 256 KiB, is kept in the history; nothing is `null`. */
  act(context: TaskView<State> & { readonly action: Action }): Result | Promise<Result>;
  /** Asked before each decision. */
  shouldStop?(context: TaskView<State>): StopVerdict | Promise<StopVerdict>;
  /** Gets what is missing before a task ends as blocked. What it answers is known from then on. */
  onKnowledgeBlocked?(
    context: TaskContext & {
      readonly missing: readonly string[];
      readonly questions: readonly string[];
      readonly acquisitionPlan: readonly string[];
    },
  ): FoundKnowledge | undefined | Promise<FoundKnowledge | undefined>;
  /** What an action cost beside what was charged. Asked after actions that worked. */
  getActionCostUsd?(context: {
    readonly action: Action;
    readonly result: Result;
    readonly state: State;
  }): number | undefined;
  /**
   * What one call of a function may cost at most, in USD. On workers so much is held in the budgets that pay before it is
   * called; without a figure, what the dearest one before it has cost.
   */
  readonly mostUsd?: Readonly<Partial<Record<AdapterFunction, number>>>;
  /** The most that a request for a task on workers gets, whatever it asks for. Programs that run a task themselves give it a budget. */
  readonly limits?: TaskLimits;
}

type AdapterFunction = 'observe' | 'validate' | 'decide' | 'act' | 'shouldStop' | 'onKnowledgeBlocked';

/** What `onKnowledgeBlocked` has found, by the id of the requirement. */
export interface FoundKnowledge {
  readonly knowledge: Readonly<Record<string, Json>>;
}

/** An adapter with a name, under which a worker can find it. Frozen. */
export type TaskAdapter<State = unknown, Action = unknown, Result = unknown> = Readonly<
  AgentAdapter<State, Action, Result>
> & { readonly id: string };

/** What the loop works with: whatever the adapter's types are, everything is JSON that has been checked. */
// oxlint-disable-next-line typescript/no-explicit-any
export type AnyAdapter = AgentAdapter<any, any, any>;

const brand = Symbol.for('millrace.task-adapter');
/** Of one call. */
const maxUsd = 1_000_000;

const must = z.custom((value) => typeof value === 'function', 'must be a function');
const may = must.optional();
const usd = z.number().min(0).max(maxUsd).optional();
const adapterShape = z.strictObject({
  id: publicId,
  observe: must,
  validate: must,
  decide: must,
  act: must,
  shouldStop: may,
  onKnowledgeBlocked: may,
  getActionCostUsd: may,
  mostUsd: z
    .strictObject({ observe: usd, validate: usd, decide: usd, act: usd, shouldStop: usd, onKnowledgeBlocked: usd })
    .optional(),
  limits: taskLimits.optional(),
});

/**
 * Declares an adapter by name, as a plain object: the default export of a module in the `adapters` folder beside agents. Throws
 * `agent_manifest_invalid` whose message and details list every problem; unknown fields are problems too.
 *
 * @example
 * export default defineTaskAdapter({ id: 'inbox', observe, validate, decide, act })
 */
export function defineTaskAdapter<State, Action, Result>(
  adapter: AgentAdapter<State, Action, Result> & { readonly id: string },
): TaskAdapter<State, Action, Result> {
  return declared('task adapter', adapter, adapterShape, brand);
}

/** Was this value made by `defineTaskAdapter`, also by another copy of this package? */
export const isTaskAdapter = madeWith<TaskAdapter>(brand);

/** An adapter that is passed as it is, which may be an instance of a class. Throws `validation`. */
export function checkAdapter(adapter: AnyAdapter): void {
  const shape = z.object(adapterShape.partial({ id: true }).shape);
  const problems = problemsOf(shape.safeParse(adapter).error, 'adapter');
  if (problems.length === 0) return;
  throw new RunError('validation', `the task adapter is not valid:\n  ${problems.join('\n  ')}`, { details: problems });
}
