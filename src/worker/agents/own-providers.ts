import type { AgentInput } from '../../shared/contract/agent/agent.ts';
import type { LlmProvider } from '../llm/provider.ts';
import type { Providers } from '../llm/backends/providers.ts';

/** A model to fall back on: its name, its name at a provider, or a provider in code; one alone is asked for the agent's `model`. */
export type FallbackModel =
  | NonNullable<AgentInput['fallbackModels']>[number]
  | { readonly provider: LlmProvider; readonly model: string }
  | LlmProvider;

/** The entries as data, and the providers that came as objects, by id. Whatever is no entry stays as it is. */
export function fallbacksOf(given: unknown, model: string) {
  const providers = new Map<string, LlmProvider>();
  const problems: string[] = [];
  const nameOf = (provider: LlmProvider): string => {
    if ((providers.get(provider.id) ?? provider) !== provider)
      problems.push(`fallbackModels: two providers have the id ${provider.id}; give each its own`);
    providers.set(provider.id, provider);
    return provider.id;
  };
  const entryOf = (entry: unknown): unknown => {
    if (isProvider(entry)) return { provider: nameOf(entry), model };
    const { provider, ...rest } = (entry ?? {}) as { readonly provider?: unknown };
    return isProvider(provider) ? { ...rest, provider: nameOf(provider) } : entry;
  };
  return { entries: Array.isArray(given) ? given.map(entryOf) : given, providers, problems };
}

function isProvider(value: unknown): value is LlmProvider {
  if (value === null || typeof value !== 'object') return false;
  const { id, generate } = value as { readonly id?: unknown; readonly generate?: unknown };
  return typeof id === 'string' && id !== '' && typeof generate === 'function';
}

/** Who serves the models of this agent: a provider that its author gave as an object comes before one of the same id. */
export function servedTo(
  { providers: own }: { readonly providers?: ReadonlyMap<string, LlmProvider> | undefined },
  providers: Pick<Providers, 'providerFor' | 'guard'>,
): Pick<Providers, 'providerFor'> {
  if (!own) return providers;
  return {
    providerFor(model, id) {
      const provider = id === undefined ? undefined : own.get(id);
      return provider ? { provider: providers.guard?.(provider) ?? provider, model } : providers.providerFor(model, id);
    },
  };
}
