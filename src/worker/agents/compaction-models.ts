import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { FallbackChain, type ChainDeps } from '../llm/fallback-chain.ts';
import type { Memory, MemoryModels } from '../turn/compaction/memory.ts';
import type { LoadedAgent } from './load-agents.ts';
import type { Served } from './preferred-models.ts';

/** Of models about which neither their provider nor the agent says anything. */
const defaultContextWindow = 128_000;

/** The models that an agent's memory works with: its summarizer, and what the others take. */
export function memoryModels(
  { memory, provider: own, model }: Pick<AgentDefinition, 'memory' | 'provider' | 'model'>,
  summarizer: Served,
  lookUp: (model: string, provider: string | undefined) => Served | undefined,
  deps: Pick<ChainDeps, 'clock' | 'price' | 'onAuthError'>,
): MemoryModels {
  const windowOf = (found: Served | undefined) =>
    found?.provider.contextWindowOf?.(found.model) ?? memory?.contextWindow ?? defaultContextWindow;
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
export function memoryOf(
  { definition, postCompactionHooks: hooks = [] }: LoadedAgent,
  models: MemoryModels | undefined,
  beside: Pick<Memory, 'report' | 'desk'>,
): Memory | undefined {
  if (!definition.memory || !models) return undefined;
  const { keepTurns, emergencyKeepTurns, summaryMaxTokens } = definition.memory;
  const secret = definition.sensitivity === 'secret';
  return { ...models, keepTurns, emergencyKeepTurns, summaryMaxTokens, secret, hooks, ...beside };
}
