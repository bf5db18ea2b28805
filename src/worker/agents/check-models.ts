import { modelsOfAgent } from '../../shared/contract/agent/agent.ts';
import { didYouMean } from '../../shared/base/nearest.ts';
import type { PriceLookup } from '../llm/cost.ts';
import { pricedModels } from '../llm/prices.ts';
import type { Providers } from '../llm/backends/providers.ts';
import type { LoadedAgent } from './loaded-agent.ts';
import { servedTo } from './own-providers.ts';
import { preferredModels } from './preferred-models.ts';

/** What is wrong and what is odd about the models that an agent names, by its fields. */
export interface CheckedModels {
  /** Models that no provider serves: runs that come to them fail. */
  readonly problems: readonly string[];
  /** Models whose price is not known, which may be a typing mistake. */
  readonly warnings: readonly string[];
}

/** Looks up every model that an agent names. Asks no provider: which models a server has is known only to the server. */
export function checkModels(agent: LoadedAgent, providers: Providers, price: PriceLookup, nowMs = Date.now()) {
  const { definition } = agent;
  const { providerFor } = servedTo(agent, providers);
  const ids = [...providers.about.map(({ id }) => id), ...(agent.providers?.keys() ?? [])];
  const own = [
    { field: 'model', model: definition.model, provider: definition.provider },
    ...definition.fallbackModels.map((entry) => ({
      field: 'fallbackModels',
      ...(typeof entry === 'string' ? { model: entry, provider: undefined } : entry),
    })),
  ];
  const unserved = own.flatMap(({ field, model, provider }) => {
    if (providerFor(model, provider)) return [];
    const whose = provider === undefined ? '' : ` of provider ${provider}${didYouMean(provider, ids)}`;
    return [`${field}: no provider serves model ${model}${whose}`];
  });
  const unpriced = modelsOfAgent(definition).flatMap(({ model, provider }) => {
    const served = providerFor(model, provider);
    if (!served || served.provider.mediaOf?.(served.model)) return [];
    if (price(served.provider.id, served.model, new Date(nowMs))) return [];
    const known = [...(providers.models ?? []), ...pricedModels(served.provider.id)];
    return [`model ${model} has no known price, so its calls count as free${didYouMean(served.model, known)}`];
  });
  return {
    problems: [...unserved, ...preferredModels(agent, providers).problems],
    warnings: [...new Set(unpriced)],
  };
}
