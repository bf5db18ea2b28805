import { RunError } from '../../shared/errors.ts';
import { createToolExecutor } from '../tools/execute.ts';
import type { TurnDeps, TurnSpec } from '../turn/turn.ts';
import { effectiveLimits } from './limits.ts';
import { unknownAgent, type OpenRun, type RunDeps } from './open.ts';

type TurnFor =
  | { readonly kind: 'turn'; readonly spec: TurnSpec; readonly deps: TurnDeps }
  | { readonly kind: 'refused'; readonly error: RunError };

/** What the turn core needs for this run, or why the run cannot be run here. Starts the wall-clock limit. */
export function turnFor(run: OpenRun, deps: RunDeps): TurnFor {
  const { record, agent, writer, signals, clock, redactor } = run;
  const { request, runId } = record;
  if (!agent) return { kind: 'refused', error: unknownAgent(request.agent) };
  const { definition } = agent;
  const model = request.overrides?.model ?? definition.model;
  const chain = deps.chainFor(agent, model);
  if (!chain) return { kind: 'refused', error: new RunError('internal', `no provider serves model ${model}`) };
  const limits = effectiveLimits(definition, request, deps.limitCaps);
  const elapsed = record.startedAt ? clock.now() - Date.parse(record.startedAt) : 0;
  signals.limitWallTime(limits.wallTimeMs, elapsed);
  return {
    kind: 'turn',
    spec: {
      system: definition.instructions,
      model,
      modelSource: request.overrides?.model ? 'override' : 'agent',
      limits,
      toolFailure: definition.toolFailure,
      metadata: { run_id: runId, agent_name: definition.id, ...(request.thread && { thread_id: request.thread }) },
      ...(definition.maxOutputTokens !== undefined && { maxOutputTokens: definition.maxOutputTokens }),
      ...(definition.temperature !== undefined && { temperature: definition.temperature }),
      ...(definition.topP !== undefined && { topP: definition.topP }),
      ...(definition.stop && { stop: definition.stop }),
      ...(definition.reasoningEffort && { reasoningEffort: definition.reasoningEffort }),
      ...(definition.outputSchema && { outputSchema: definition.outputSchema }),
    },
    deps: {
      chain,
      clock,
      redactor,
      tools: createToolExecutor(agent.tools, { runId, keyFor: (step, index) => `${runId}:s${step}:t${index}` }),
      emit: (body) => writer.emit(body),
      record: (entries) => writer.commit({ entries }),
      requestId: (step) => `${runId}:step:${step}`,
      stopRequested: () => {
        if (signals.cancelRequest?.drain) return 'drain';
        return deps.stopping() ? 'hand_over' : undefined;
      },
    },
  };
}
