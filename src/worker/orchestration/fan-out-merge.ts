import type { Clock } from '../../shared/base/clock.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import { jsonText } from '../../shared/base/json-text.ts';
import type { FanOutPlan } from './fan-out-options.ts';
import type { FanOutResultChild, MergeGuard } from '../agents/judge.ts';
import { foreignAnswer } from './foreign-answer.ts';

export interface Merged<T> {
  readonly output: T | string;
  readonly weights?: readonly number[];
}

export interface MergeDeps {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly mergeGuard?: MergeGuard | undefined;
}

const nothing = { output: '' };

/**
 * The answers of the children as one. Empty once the signal is aborted. Throws what the operator's own function throws, and
 * `merge_blocked`.
 */
export async function merge<T>(
  strategy: FanOutPlan<T>['strategy'],
  children: readonly FanOutResultChild[],
  first: FanOutResultChild | undefined,
  deps: MergeDeps,
): Promise<Merged<T>> {
  if (deps.signal.aborted) return nothing;
  switch (strategy.kind) {
    case 'concat':
      return { output: concat(strategy, children) };
    case 'first-success':
      return { output: first?.output ?? '' };
    case 'judge-merge': {
      const judged = await foreignAnswer((signal) => strategy.judge(children, signal), deps.clock, deps.signal);
      return judged ? { output: judged.value, ...guarded(judged.value, children, deps.mergeGuard) } : nothing;
    }
    case 'custom': {
      const merged = await foreignAnswer((signal) => strategy.merge(children, signal), deps.clock, deps.signal);
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

function guarded(
  output: unknown,
  children: readonly FanOutResultChild[],
  guard: MergeGuard | undefined,
): { readonly weights?: readonly number[] } {
  if (!guard) return {};
  const text = typeof output === 'string' ? output : (jsonText(output) ?? '');
  const verdict = guard({ children, text });
  switch (verdict.kind) {
    case 'pass':
      return verdict.weights ? { weights: verdict.weights } : {};
    case 'block': {
      const statuses = children.map(({ id, status, costMicrocents }) => ({ id, status, costMicrocents }));
      throw new RunError('merge_blocked', verdict.reason, { details: { children: statuses } });
    }
    default:
      return assertNever(verdict);
  }
}
