import { limits, type AgentDefinition, type Limits } from '../../shared/agent.ts';
import { budgetCap, type Budget, type OnExceed } from '../../shared/money.ts';
import type { RunRequest } from '../../shared/run.ts';

/** Upper bounds that this worker sets for everybody. */
export interface LimitCaps {
  readonly maxSteps: number;
}

type Given = Pick<AgentDefinition, 'limits' | 'budget' | 'callersMayRaise'>;
type Asked = Pick<RunRequest, 'limits' | 'budget' | 'overrides' | 'raise'>;

/**
 * The limits of one run. A request may lower what its agent has, of its own or by default; it raises only what the agent
 * lets callers raise, or everything with `raise`. An agent that sets no `maxSteps` leaves that to the worker's cap.
 */
export function effectiveLimits({ callersMayRaise, ...definition }: Given, request: Asked, caps: LimitCaps): Limits {
  const { deadlineMs: _, ...own } = definition.limits;
  const given = limits.parse(own);
  const asked = { ...request.limits, maxSteps: request.overrides?.maxTurns ?? request.limits?.maxSteps };
  const effective = { ...given };
  for (const field of Object.keys(given) as (keyof Limits)[]) {
    const wanted = asked[field];
    const isOpen = field === 'maxSteps' && own.maxSteps === undefined;
    const mayRaise = isOpen || request.raise === true || callersMayRaise.includes(field);
    if (wanted !== undefined) effective[field] = mayRaise ? wanted : Math.min(wanted, given[field]);
  }
  return { ...effective, maxSteps: Math.min(effective.maxSteps, caps.maxSteps) };
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
