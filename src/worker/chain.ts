import { systemClock } from '../shared/clock.ts';
import type { Log } from '../shared/log.ts';
import { FallbackChain } from './llm/fallback-chain.ts';
import type { PriceLookup } from './llm/cost.ts';
import type { LlmProvider } from './llm/provider.ts';
import type { Providers } from './llm/providers.ts';
import type { LoadedAgent } from './run/load-agents.ts';
import type { RunDeps } from './run/open.ts';

/**
 * Chains and prices for runs. A chain has the wanted model first, then the agent's fallback models, each with the agent's retries.
 * Undefined when any of them has no provider: a typing mistake in a fallback must show before it is needed.
 */
export function modelsOf(providers: Providers, price: PriceLookup, log: Log): Pick<RunDeps, 'chainFor' | 'priceOf'> {
  const chainFor = ({ definition }: LoadedAgent, model: string): FallbackChain | undefined => {
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
  const priceOf = ({ definition }: LoadedAgent, model: string) => {
    const found = providers.providerFor(model, definition.provider);
    return found && price(found.provider.id, found.model, new Date());
  };
  return { chainFor, priceOf };
}

/** One provider for every model: what library users and tests pass in. */
export function singleProvider(provider: LlmProvider): Providers {
  return { providerFor: (model) => ({ provider, model }), scripted: false, secrets: [] };
}
