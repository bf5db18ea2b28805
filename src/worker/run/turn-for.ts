import { RunError } from '../../shared/errors.ts';
import type { JournalEntry } from '../../shared/journal.ts';
import { toolCallsOf } from '../../shared/message.ts';
import type { RecordPatch } from '../ports.ts';
import { createToolExecutor } from '../tools/execute.ts';
import type { TurnDeps, TurnSpec } from '../turn/turn.ts';
import { RunBudget } from './budget.ts';
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
  const budget = new RunBudget({
    budget: request.budget ?? definition.budget,
    spent: run.state.costMicrocents,
    maxOutputTokens: definition.maxOutputTokens,
    price: deps.priceOf(agent, model),
    emit: (body) => writer.emit(body),
  });
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
      record: async (entries) => {
        budget.count(entries);
        // Nothing follows a final answer but the end of the run: both go out as one write.
        if (entries.some(isFinalAnswer)) writer.keep(entries);
        else await writer.commit({ entries, ...progressOf(entries) });
      },
      preEgress: async () => budget.check(),
      requestId: (step) => `${runId}:step:${step}`,
      stopRequested: () => {
        if (signals.cancelRequest?.drain) return 'drain';
        return deps.stopping() ? 'hand_over' : undefined;
      },
    },
  };
}

function isFinalAnswer(entry: JournalEntry): boolean {
  return entry.t === 'answered' && toolCallsOf(entry.message).length === 0;
}

/** What the record shows of a run that is still going on. */
function progressOf(entries: readonly JournalEntry[]): { patch?: RecordPatch } {
  const answered = entries.findLast((entry) => entry.t === 'answered');
  return answered ? { patch: { steps: answered.step } } : {};
}
