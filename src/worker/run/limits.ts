import {
  limits,
  type AgentDefinition,
  type Limits,
  type RaisableField,
  type RequestBounds,
} from '../../shared/contract/agent/agent.ts';
import { budgetCap, type Budget, type OnExceed } from '../../shared/contract/money.ts';
import type { NodeConfig } from '../../shared/contract/node.ts';
import type { RunRequest } from '../../shared/contract/run.ts';
import type { TaskRequest } from '../../shared/contract/orchestration/requests.ts';
import type { TaskLimits } from '../../shared/contract/orchestration/task.ts';

/** Upper bounds that this worker sets for all runs. */
export interface LimitCaps {
  readonly maxSteps: number;
  /** Of the journal of one run. */
  readonly maxJournalBytes: number;
  /** Do agents that say nothing about it have a loop guard? Absent: no. */
  readonly loopGuard?: boolean;
}

type Given = Pick<AgentDefinition, 'limits' | 'budget' | 'retry' | 'callersMayRaise'>;
type Asked = Pick<RunRequest, 'limits' | 'budget' | 'overrides' | 'raise'>;

/** The smaller of what an author gives and a caller asks for, and what is asked for where the caller may raise it. */
function smaller<T extends number | undefined>(given: number | undefined, asked: T, mayRaise: boolean): number | T {
  if (asked === undefined) return given as number | T;
  if (given === undefined) return asked;
  return mayRaise ? asked : Math.min(given, asked);
}

/** Of two maxima that may be absent. */
export function smallerOf(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}

function raises({ callersMayRaise }: Pick<Given, 'callersMayRaise'>, { raise }: Pick<Asked, 'raise'>) {
  return (field: RaisableField) => raise === true || callersMayRaise.includes(field);
}

/** What an agent has of the limits that every run has, of its own or by default. */
export function limitsOf(definition: Pick<Given, 'limits'>): Limits {
  return limits.strip().parse(definition.limits);
}

/**
 * The limits of one run. A request may lower what its agent has, of its own or by default; it raises only what the agent
 * lets callers raise, or everything with `raise`. An agent that sets no `maxSteps` leaves that to the worker's cap.
 */
export function effectiveLimits(
  definition: Given,
  request: Pick<Asked, 'limits' | 'overrides' | 'raise'>,
  caps: Pick<LimitCaps, 'maxSteps'>,
): Limits {
  const given = limitsOf(definition);
  const asked = { ...request.limits, maxSteps: request.overrides?.maxTurns ?? request.limits?.maxSteps };
  const mayRaise = raises(definition, request);
  const effective = { ...given };
  for (const field of limits.keyof().options) {
    const isOpen = field === 'maxSteps' && definition.limits.maxSteps === undefined;
    effective[field] = smaller(given[field], asked[field], isOpen || mayRaise(field)) ?? given[field];
  }
  return { ...effective, maxSteps: Math.min(effective.maxSteps, caps.maxSteps) };
}

/** Does a run that reaches a limit get a closing call? As the request says, else as its agent does. */
export function closesAtLimit(definition: Pick<Given, 'limits'>, request: Pick<Asked, 'limits'>): boolean {
  return request.limits?.closingAnswer ?? definition.limits.closingAnswer ?? false;
}

/** How much a request may have of what it asks for in its kind of work. Its agent bounds what it leaves open. */
export function boundsOf(definition: Given, request: Pick<Asked, 'raise'>) {
  const mayRaise = raises(definition, request);
  return <T extends number | undefined>(field: keyof RequestBounds, asked: T): number | T =>
    smaller(definition.limits[field], asked, mayRaise(field));
}

/** How often models are tried for a node: as it asks, and no more often than for its agent. Without either, once. */
export function effectiveRetry(
  definition: Pick<Given, 'retry' | 'callersMayRaise'>,
  { retry, raise }: Pick<NodeConfig, 'retry'> & Pick<Asked, 'raise'>,
): NonNullable<Given['retry']> {
  const { retry: own } = definition;
  const { max, backoff } = retry ?? own ?? { max: 1, backoff: 'exponential' };
  return { max: smaller(own?.max, max, raises(definition, { raise })('retry')) ?? max, backoff };
}

/** Where a task ends at the latest: the smaller of what its adapter gives and the request asks for, unless an operator raises it. */
export function effectiveTaskLimits(
  given: TaskLimits = {},
  { limits: asked, raise = false }: Pick<TaskRequest, 'limits'> & Pick<Asked, 'raise'>,
): TaskRequest['limits'] {
  const lifts = raise && (asked.maxCostMicrocents ?? asked.maxCostUsd) !== undefined;
  const cap = smaller(lifts ? undefined : budgetCap(given), budgetCap(asked), false);
  const { maxCostUsd, ...rest } = {
    ...asked,
    maxSteps: smaller(given.maxSteps, asked.maxSteps, raise) ?? asked.maxSteps,
    maxWallMs: smaller(given.maxWallMs, asked.maxWallMs, raise) ?? asked.maxWallMs,
  };
  if (cap === budgetCap(asked)) return maxCostUsd === undefined ? rest : { ...rest, maxCostUsd };
  return { ...rest, maxCostMicrocents: cap };
}

/** From what goes on past the cap to what stops at it. */
const strictness: readonly OnExceed[] = ['warn', 'pause_for_approval', 'fail'];

/**
 * The budget of one run: the smaller cap of the request's and the agent's, and of each rule the stricter one. A request
 * without a cap keeps the agent's. Where callers may raise it, the request's replaces the agent's.
 */
export function effectiveBudget(
  definition: Pick<Given, 'budget' | 'callersMayRaise'> | undefined,
  request: Pick<Asked, 'budget' | 'raise'>,
): Budget | undefined {
  const own = definition?.budget;
  const asked = request.budget;
  if (!own || !asked) return asked ?? own;
  if (request.raise === true || definition.callersMayRaise.includes('budget')) return asked;
  const ownCap = budgetCap(own);
  if (ownCap === undefined) return asked;
  const stricter = Math.max(strictness.indexOf(own.onExceed), strictness.indexOf(asked.onExceed));
  return {
    maxCostMicrocents: Math.min(ownCap, budgetCap(asked) ?? ownCap),
    onExceed: budgetCap(asked) === undefined ? own.onExceed : (strictness[stricter] ?? own.onExceed),
    unpriced: own.unpriced === 'deny' ? 'deny' : asked.unpriced,
  };
}
