import type { TurnDeps } from '../turn/turn.ts';
import type { LoadedAgent } from './load-agents.ts';
import type { OpenRun, RunDeps } from './open.ts';

/** What keeps the conversation of a run within its models' windows; nothing for agents that want it whole. */
export function memoryFor(
  { record: { runId }, log }: OpenRun,
  agent: LoadedAgent,
  deps: RunDeps,
): Pick<TurnDeps, 'memory'> {
  const { definition, postCompactionHooks: hooks = [] } = agent;
  const models = deps.memoryFor(agent);
  if (!definition.memory || !models) return {};
  const { keepTurns, emergencyKeepTurns, summaryMaxTokens } = definition.memory;
  return {
    memory: {
      ...models,
      keepTurns,
      emergencyKeepTurns,
      summaryMaxTokens,
      secret: definition.sensitivity === 'secret',
      hooks,
      ...(deps.desk && { desk: deps.desk }),
      report(outcome, cause) {
        deps.countCompaction?.(definition.id, outcome);
        if (outcome === 'failed') log.warn({ runId, err: cause }, 'conversation was not compacted');
        if (outcome === 'hook_failed') log.warn({ runId, err: cause }, 'hook after a compaction failed');
      },
    },
  };
}
