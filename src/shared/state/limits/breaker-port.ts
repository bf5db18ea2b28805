import type { BreakerPolicy } from '../../contract/agent/agent.ts';

export type Admission =
  | { readonly kind: 'closed' }
  /** The one call that finds out whether the model is back. */
  | { readonly kind: 'probe' }
  | { readonly kind: 'open'; readonly retryAfterMs: number };

/**
 * Circuit breakers by provider and model, shared by all workers: opened by consecutive failures anywhere in the fleet,
 * known everywhere within a second, closed by one successful probe after the cooldown. Kept in Redis by
 * `state/limits/shared-breakers.ts`, in memory by `local/stores/memory-breakers.ts`; both pass `test/contract/breakers.ts`.
 */
export interface Breakers extends AsyncDisposable {
  /**
   * May the model be called? No round trip while all is well. While somebody else's probe is under way it waits for what
   * that finds, at most `patienceMs`.
   */
  admit(target: string, patienceMs: number, signal: AbortSignal): Promise<Admission>;
  /** `neutral`: the call says nothing about the health of the model; a probe is given back. */
  report(
    target: string,
    outcome: 'success' | 'failure' | 'neutral',
    admission: Admission,
    policy: Pick<BreakerPolicy, 'failureThreshold' | 'cooldownMs'>,
  ): Promise<void>;
  /** As this process knows it, for metrics. */
  states(): ReadonlyMap<string, 'closed' | 'open' | 'half_open'>;
}
