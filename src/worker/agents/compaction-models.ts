import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { FallbackChain, type ChainDeps } from '../llm/fallback-chain.ts';
import type { CompactionPolicy, CompactionModels } from '../turn/compaction/policy.ts';
import type { LoadedAgent } from './load-agents.ts';
import type { Served } from './preferred-models.ts';

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
  beside: Pick<CompactionPolicy, 'report' | 'requests'>,
): CompactionPolicy | undefined {
  if (!definition.compaction || !models) return undefined;
  const { keepTurns, emergencyKeepTurns, summaryMaxTokens } = definition.compaction;
  const secret = definition.sensitivity === 'secret';
  return { ...models, keepTurns, emergencyKeepTurns, summaryMaxTokens, secret, hooks, ...beside };
}
