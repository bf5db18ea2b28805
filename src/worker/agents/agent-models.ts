import { systemClock, type Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Log } from '../../shared/base/log.ts';
import { inChunks, assertMiddlewareOrder, withMiddleware, type Middleware } from '../llm/backends/middleware.ts';
import { FallbackChain, type ChainDeps, type ChainPast } from '../llm/fallback-chain.ts';
import type { PriceLookup } from '../llm/cost.ts';
import type { LlmProvider } from '../llm/provider.ts';
import type { Providers } from '../llm/backends/providers.ts';
import type { LoadedAgent } from './loaded-agent.ts';
import { servedTo } from './own-providers.ts';
import { compactionModels, preferredModels, type PreferredModels } from './preferred-models.ts';
import type { ModelPreferences } from '../turn/choose-model.ts';
import type { MediaMaking } from '../turn/turn-ports.ts';
import type { CompactionModels } from '../turn/compaction/policy.ts';

export interface ModelsOptions {
  readonly price: PriceLookup;
  readonly clock?: Clock | undefined;
  readonly onAuthError?: ChainDeps['onAuthError'] | undefined;
  /** Spreads retries. Default: at random. */
  readonly random?: ChainDeps['random'] | undefined;
  /** Known from the start. */
  readonly agents?: Iterable<LoadedAgent>;
}

type MediaModel = Pick<MediaMaking, 'provider' | 'model' | 'offer'>;

/** The models of an agent, as a run asks for them. */
export interface AgentModels {
  /** A chain for one run of this agent; undefined when no provider serves the model. */
  readonly chainFor: (agent: LoadedAgent, model: string, past: ChainPast, log: Log) => FallbackChain | undefined;
  /** Who makes media with this model of the agent; undefined for chat models. */
  readonly mediaFor: (agent: LoadedAgent, model: string) => MediaModel | undefined;
  /** What this agent and its tools wish for, looked up. */
  readonly preferencesFor: (agent: LoadedAgent) => ModelPreferences;
  /** The models that compact an agent's context; undefined for agents without compaction. */
  readonly compactionModelsFor: (agent: LoadedAgent) => CompactionModels | undefined;
}

const defaultRetry = { max: 4, backoff: 'exponential' } as const;

/**
 * Chains for runs. A chain has the wanted model first, then the agent's fallback models, each with the agent's retries.
 * Undefined when any of them has no provider: a typing mistake in a fallback must show before it is needed. Throws
 * `agent_manifest_invalid` when a model that one of `agents` or its tools prefers has none.
 */
export function modelsOf(
  providers: Pick<Providers, 'providerFor' | 'guard'>,
  { price, clock = systemClock, onAuthError, random, agents = [] }: ModelsOptions,
): AgentModels {
  const preferred = new Map<string, PreferredModels>();
  const preferredOf = (agent: LoadedAgent) => {
    const { id } = agent.definition;
    const known = preferred.get(id) ?? preferredModels(agent, providers);
    preferred.set(id, known);
    return known;
  };
  const problems = [...agents].flatMap((agent) =>
    preferredOf(agent).problems.map((problem) => `agent ${agent.definition.id}: ${problem}`),
  );
  if (problems.length > 0) throw new RunError('agent_manifest_invalid', problems.join('\n'), { details: problems });
  return {
    preferencesFor: (agent) => preferredOf(agent).preferences,
    mediaFor(agent, model) {
      const { definition } = agent;
      const found = servedTo(agent, providers).providerFor(model, definition.provider);
      const offer = found?.provider.mediaOf?.(found.model);
      return found && offer && { ...found, offer };
    },
    compactionModelsFor(agent) {
      const { summarizer, served } = preferredOf(agent);
      const { providerFor } = servedTo(agent, providers);
      const lookUp = (name: string, provider: string | undefined) =>
        served(name, provider) ?? providerFor(name, provider);
      const deps = { clock, price, onAuthError, random };
      return summarizer && compactionModels(agent.definition, summarizer, lookUp, deps);
    },
    chainFor(agent, model, past, log) {
      const { definition } = agent;
      const { served } = preferredOf(agent);
      const { providerFor } = servedTo(agent, providers);
      const { max: maxAttempts, backoff } = definition.retry ?? defaultRetry;
      const resolve = (name: string, provider?: string) => {
        const found = served(name, provider) ?? providerFor(name, provider);
        return found && { ...found, provider: inChunks(found.provider), maxAttempts, backoff };
      };
      const wanted = [
        { model, provider: definition.provider },
        ...definition.fallbackModels.map((entry) =>
          typeof entry === 'string' ? { model: entry, provider: undefined } : entry,
        ),
      ];
      const candidates = wanted.map((entry) => resolve(entry.model, entry.provider));
      if (!candidates.every((found) => found !== undefined)) return undefined;
      const { fallbackOnAuth, midStream, rateLimitCooldownMs: cooldownMs } = definition;
      const policy = { fallbackOnAuth, retryMidStream: midStream === 'retry_step' };
      const deps = { clock, price, log, cooldownMs, policy, resolve, onAuthError, random };
      return new FallbackChain(candidates, deps, past);
    },
  };
}

/** One provider for every model: what library users and tests pass in. */
export function singleProvider(provider: LlmProvider): Providers {
  const about = [{ id: provider.id, kind: 'custom', hasKey: provider.credential !== undefined } as const];
  return { providerFor: (model) => ({ provider, model }), scripted: false, about, secrets: [] };
}

/** The same providers, each behind these middlewares. Throws `middleware_order_violation`. */
export function behind(middleware: readonly Middleware[], providers: Providers): Providers {
  if (middleware.length === 0) return providers;
  assertMiddlewareOrder(middleware);
  return wrapped(providers, (provider) => withMiddleware(provider, middleware));
}

/** The same providers, each as `wrap` makes it of one, once. */
export function wrapped(providers: Providers, wrap: (provider: LlmProvider) => LlmProvider): Providers {
  const made = new WeakMap<LlmProvider, LlmProvider>();
  const wrappedOnce = (given: LlmProvider) => {
    const provider = made.get(given) ?? wrap(given);
    made.set(given, provider);
    return provider;
  };
  return {
    ...providers,
    guard: (provider) => wrappedOnce(providers.guard?.(provider) ?? provider),
    providerFor(model, id) {
      const found = providers.providerFor(model, id);
      return found && { ...found, provider: wrappedOnce(found.provider) };
    },
  };
}
