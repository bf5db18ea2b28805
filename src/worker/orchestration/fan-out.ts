import { systemClock, type Clock } from '../../shared/base/clock.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { addUsage, zeroUsage, type Usage } from '../../shared/contract/money.ts';
import { inLanes } from '../../shared/base/collections.ts';
import { runChild } from './fan-out-child.ts';
import type { MergeGuard, FanOutResultChild } from '../agents/define-judge.ts';
import { planOf, type FanOutOptions, type FanOutPlan } from './fan-out-options.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import { jsonText } from '../../shared/base/json.ts';
import { leakEvent } from '../tools/leak-event.ts';
import { foreignAnswer } from './orchestration.ts';

export interface FanOutDeps {
  /** Cancels every child; the fan-out then resolves with an empty output and what became of them. */
  readonly signal?: AbortSignal;
  /** Gets `agent.fanout.spawned` and, unless the merge failed, `agent.fanout.merged`. */
  readonly emit?: (event: EventBody) => void;
  /** Looks at what a judge made before it is used. */
  readonly mergeGuard?: MergeGuard | undefined;
  readonly clock?: Clock;
}

export interface FanOutResult<T = string> {
  readonly output: T | string;
  /** In the order in which they were given, also those that were never started (`cancelled`). */
  readonly children: readonly FanOutResultChild[];
  /** The children of little trust that make up too much of a judged answer, where the merge guard flags them. */
  readonly flagged?: readonly string[];
  /** Of all children, whatever became of them. */
  readonly usage: Usage;
  readonly costMicrocents: number;
}

/**
 * Asks several agents and makes one answer of theirs. A child that fails, is late or uses too much changes its own status
 * and nothing else. Throws `invalid_config` before anything starts, `merge_blocked`, and what a judge or a merge function
 * throws. Nothing here looks at a clock but the race of a child with its deadline: a caller that makes the children settle again
 * as they did, in the order in which they did, gets the same result.
 */
export async function runFanOut<T = string>(
  options: FanOutOptions<T>,
  { signal = new AbortController().signal, emit = () => {}, mergeGuard, clock = systemClock }: FanOutDeps = {},
): Promise<FanOutResult<T>> {
  return await fanOut(planOf(options), { signal, emit, mergeGuard, clock });
}

type FanOutHost = Required<Omit<FanOutDeps, 'mergeGuard'>> & { readonly mergeGuard: MergeGuard | undefined };

/** The same by a plan. Throws as it does, apart from `invalid_config`. */
export async function fanOut<T>(plan: FanOutPlan<T>, host: FanOutHost): Promise<FanOutResult<T>> {
  const { signal, emit, clock } = host;
  const ids = plan.children.map(({ id }) => id);
  emit({ type: 'agent.fanout.spawned', children: ids });
  const { children, first } = await runChildren(plan, clock, signal);
  const { output, weights, flagged } = await merge(plan.strategy, children, first, host);
  emit({
    type: 'agent.fanout.merged',
    strategy: plan.strategy.kind,
    children: ids,
    statuses: children.map(({ status }) => status),
    ...(weights && { weights: [...weights] }),
  });
  return {
    output,
    children,
    ...(flagged && { flagged }),
    usage: children.reduce((sum, child) => addUsage(sum, child.usage), zeroUsage),
    costMicrocents: children.reduce((sum, child) => sum + child.costMicrocents, 0),
  };
}

async function runChildren<T>({ children, strategy, budget, width }: FanOutPlan<T>, clock: Clock, signal: AbortSignal) {
  const won = new AbortController();
  const stop = AbortSignal.any([signal, won.signal]);
  const results: FanOutResultChild[] = [];
  let first: FanOutResultChild | undefined;
  await inLanes([...children.entries()], width, async ([at, child]) => {
    const result = await runChild(child, budget, clock, stop);
    results[at] = result;
    if (result.status !== 'completed') return;
    first ??= result;
    if (strategy.kind === 'first-success') won.abort(new DOMException('another child was faster', 'AbortError'));
  });
  return { children: results, first };
}

const nothing = { output: '' };

/**
 * The answers of the children as one. Empty once the signal is aborted. Throws what the operator's own function throws, and
 * `merge_blocked`.
 */
async function merge<T>(
  strategy: FanOutPlan<T>['strategy'],
  children: readonly FanOutResultChild[],
  first: FanOutResultChild | undefined,
  host: FanOutHost,
): Promise<{
  readonly output: T | string;
  readonly weights?: readonly number[];
  readonly flagged?: readonly string[];
}> {
  const { clock, signal: stop } = host;
  if (stop.aborted) return nothing;
  switch (strategy.kind) {
    case 'concat':
      return { output: concat(strategy, children) };
    case 'first-success':
      return { output: first?.output ?? '' };
    case 'judge-merge': {
      const judged = await foreignAnswer((signal) => strategy.judge(children, signal), clock, stop);
      return judged ? { output: judged.value, ...guarded(judged.value, children, host) } : nothing;
    }
    case 'custom': {
      const merged = await foreignAnswer((signal) => strategy.merge(children, signal), clock, stop);
      return merged ? { output: merged.value } : nothing;
    }
    default:
      return assertNever(strategy);
  }
}

function concat(
  { separator, includeFailures }: { readonly separator: string; readonly includeFailures: boolean },
  children: readonly FanOutResultChild[],
): string {
  return children
    .flatMap(({ status, id, output = '' }) => {
      if (status === 'completed') return [output];
      return includeFailures ? [`[${status}: ${id}]`] : [];
    })
    .join(separator);
}

function guarded(output: unknown, children: readonly FanOutResultChild[], { mergeGuard: guard, emit }: FanOutHost) {
  if (!guard) return {};
  const text = typeof output === 'string' ? output : (jsonText(output) ?? '');
  const verdict = guard({ children, text });
  if (verdict.leak) emit(leakEvent(verdict.leak));
  switch (verdict.kind) {
    case 'pass': {
      const { weights, flagged } = verdict;
      return { ...(weights && { weights }), ...(flagged && { flagged }) };
    }
    case 'block': {
      const statuses = children.map(({ id, status, costMicrocents }) => ({ id, status, costMicrocents }));
      throw new RunError('merge_blocked', verdict.reason, { details: { children: statuses } });
    }
    default:
      return assertNever(verdict);
  }
}
