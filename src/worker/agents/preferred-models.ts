import { modelTier, type AgentDefinition, type ModelHint } from '../../shared/contract/agent/agent.ts';
import { jsonText } from '../../shared/base/json.ts';
import type { LlmProvider } from '../llm/provider.ts';
import type { Providers } from '../llm/backends/providers.ts';
import type { ModelPreferences } from '../turn/choose-model.ts';
import { FallbackChain, type ChainDeps } from '../llm/fallback-chain.ts';
import type { CompactionPolicy, CompactionModels } from '../turn/compaction/policy.ts';
import type { LoadedAgent } from './loaded-agent.ts';
import { servedTo } from './own-providers.ts';

/** A model, and who serves it. */
export interface Served {
  readonly provider: LlmProvider;
  readonly model: string;
}

/** The models that an agent and its tools prefer, each looked up once. */
export interface PreferredModels {
  readonly preferences: ModelPreferences;
  /** Who writes summaries for the agent; undefined where it wants none. */
  readonly summarizer: Served | undefined;
  /** Preferences that no provider serves, by their fields. */
  readonly problems: readonly string[];
  /** One of those that were found. */
  readonly served: (model: string, provider: string | undefined) => Served | undefined;
}

/** Looks up the models of `modelTierMap`, and those that the agent and its tools name themselves. */
export function preferredModels(
  agent: Pick<LoadedAgent, 'definition' | 'tools' | 'providers'>,
  providers: Pick<Providers, 'providerFor' | 'guard'>,
): PreferredModels {
  const { definition, tools } = agent;
  const { providerFor } = servedTo(agent, providers);
  const problems: string[] = [];
  const found = new Map<string, Served>();
  const look = (field: string, model: string, provider?: string) => {
    const name = keyOf(model, provider);
    const served = found.get(name) ?? providerFor(model, provider);
    if (!served) {
      const whose = provider === undefined ? '' : ` of provider ${provider}`;
      problems.push(`${field}: no provider serves model ${model}${whose}`);
      return undefined;
    }
    found.set(name, served).set(keyOf(served.model, served.provider.id), served);
    return { provider: served.provider.id, model: served.model };
  };
  const lookHint = (field: string, hint: ModelHint | undefined): ModelHint | undefined =>
    typeof hint === 'object' ? look(field, hint.model, hint.provider) : hint;

  const tiers: ModelPreferences['tiers'] = Object.fromEntries(
    modelTier.options.flatMap((tier) => {
      const entry = definition.modelTierMap[tier];
      if (entry === undefined) return [];
      const field = `modelTierMap.${tier}`;
      const name = typeof entry === 'string' ? look(field, entry) : look(field, entry.model, entry.provider);
      return name ? [[tier, name] as const] : [];
    }),
  );
  const preferred = lookHint('preferredModel', definition.preferredModel);
  const hints = tools.flatMap((tool) => {
    const hint = lookHint(`tool ${tool.name}: preferredModel`, tool.preferredModel);
    return hint === undefined ? [] : [[tool.name, hint] as const];
  });
  const summarizer = summarizerOf(definition, tiers);
  const writer = summarizer && look('compaction.summarizer', summarizer.model, summarizer.provider);
  return {
    summarizer: writer && found.get(keyOf(writer.model, writer.provider)),
    preferences: { tiers, tools: new Map(hints), agent: preferred },
    problems,
    served: (model, provider) => found.get(keyOf(model, provider)),
  };
}

/** Who the agent says writes its summaries: else the fast tier, else its own model. */
function summarizerOf({ compaction, provider, model }: AgentDefinition, { fast }: ModelPreferences['tiers']) {
  if (!compaction) return undefined;
  const { summarizer = fast ?? { model, provider } } = compaction;
  return typeof summarizer === 'string' ? { model: summarizer, provider: undefined } : summarizer;
}

function keyOf(model: string, provider: string | undefined): string {
  return jsonText([model, provider]);
}

/** Of models about which neither their provider nor the agent says anything. */
const defaultContextWindow = 128_000;

/** The models that an agent's compaction uses: its summarizer, and what the others take. */
export function compactionModels(
  { compaction, provider: own, model }: Pick<AgentDefinition, 'compaction' | 'provider' | 'model'>,
  summarizer: Served,
  lookUp: (model: string, provider: string | undefined) => Served | undefined,
  deps: Pick<ChainDeps, 'clock' | 'price' | 'onAuthError'>,
): CompactionModels {
  const windowOf = (found: Served | undefined) =>
    found?.provider.contextWindowOf?.(found.model) ?? compaction?.contextWindow ?? defaultContextWindow;
  // One attempt: what fails now is tried again some steps later, and the run does not wait for it.
  const candidate = { ...summarizer, maxAttempts: 1, backoff: 'exponential' } as const;
  return {
    summarizer: {
      chain: new FallbackChain([candidate], deps),
      contextWindow: windowOf(summarizer),
      accepts: summarizer.provider.acceptsSensitivity,
    },
    contextWindowOf: (name, asked) => windowOf(lookUp(name, asked ?? (name === model ? own : undefined))),
  };
}

/** What keeps a conversation within these models' windows, as the agent asks for; undefined for agents that want it whole. */
export function compactionPolicyOf(
  { definition, postCompactionHooks: hooks = [] }: LoadedAgent,
  models: CompactionModels | undefined,
  beside: Pick<CompactionPolicy, 'report' | 'requests' | 'compactsFirst'>,
): CompactionPolicy | undefined {
  if (!definition.compaction || !models) return undefined;
  const { keepTurns, emergencyKeepTurns, summaryMaxTokens } = definition.compaction;
  const secret = definition.sensitivity === 'secret';
  return { ...models, keepTurns, emergencyKeepTurns, summaryMaxTokens, secret, hooks, ...beside };
}
