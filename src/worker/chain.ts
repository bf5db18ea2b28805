import { systemClock } from '../shared/clock.ts';
import type { Log } from '../shared/log.ts';
import { FallbackChain } from './llm/fallback-chain.ts';
import type { PriceLookup } from './llm/cost.ts';
import type { LlmProvider } from './llm/provider.ts';
import type { Providers } from './llm/providers.ts';
import type { LoadedAgent } from './run/load-agents.ts';

/**
 * Makes the chain of one run: the wanted model first, then the agent's fallback models, each with the agent's retries.
 * Undefined when any of them has no provider: a typing mistake in a fallback must show before it is needed.
 */
export function chainBuilder(providers: Providers, price: PriceLookup, log: Log) {
  return ({ definition }: LoadedAgent, model: string): FallbackChain | undefined => {
    const { max: maxAttempts, backoff } = definition.retry;
    const wanted = [
      { model, provider: definition.provider },
      ...definition.fallbackModels.map((entry) =>
        typeof entry === 'string' ? { model: entry, provider: undefined } : entry,
      ),
    ];
    const candidates = [];
    for (const entry of wanted) {
      const found = providers.providerFor(entry.model, entry.provider);
      if (!found) return undefined;
      candidates.push({ ...found, maxAttempts, backoff });
    }
    return new FallbackChain(candidates, { clock: systemClock, price, log });
  };
}

/** One provider for every model: what library users and tests pass in. */
export function singleProvider(provider: LlmProvider): Providers {
  return { providerFor: (model) => ({ provider, model }), scripted: false, secrets: [] };
}
