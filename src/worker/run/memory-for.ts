import type { Memory, MemoryModels } from '../turn/compaction/memory.ts';
import type { TurnDeps } from '../turn/turn.ts';
import type { LoadedAgent } from '../agents/load-agents.ts';
import type { OpenRun, RunDeps } from './open.ts';

/** What keeps the conversation of a run within its models' windows; nothing for agents that want it whole. */
export function memoryFor({ log }: OpenRun, agent: LoadedAgent, deps: RunDeps): Pick<TurnDeps, 'memory'> {
  return memoryOf(agent, deps.memoryFor(agent), {
    ...(deps.desk && { desk: deps.desk }),
    report(outcome, cause) {
      deps.countCompaction?.(agent.definition.id, outcome);
      if (outcome === 'failed') log.warn({ err: cause }, 'conversation was not compacted');
      if (outcome === 'hook_failed') log.warn({ err: cause }, 'hook after a compaction failed');
    },
  });
}

/** The same wherever a turn is taken: what the agent asks for, with these models. */
export function memoryOf(
  { definition, postCompactionHooks: hooks = [] }: LoadedAgent,
  models: MemoryModels | undefined,
  beside: Pick<Memory, 'report' | 'desk'>,
): Pick<TurnDeps, 'memory'> {
  if (!definition.memory || !models) return {};
  const { keepTurns, emergencyKeepTurns, summaryMaxTokens } = definition.memory;
  const secret = definition.sensitivity === 'secret';
  return { memory: { ...models, keepTurns, emergencyKeepTurns, summaryMaxTokens, secret, hooks, ...beside } };
}
