import type { ToolHost } from '../tools/execute/batch.ts';
import type { BatchEnd } from '../tools/execute/run-batch.ts';
import { hasOpenCalls } from '../../shared/contract/journal/fold.ts';
import type { Turn } from './contract.ts';

/** Runs what is open of the current step's calls. The end of the step is told together with its last result. */
export async function runTools(turn: Turn): Promise<BatchEnd> {
  const { spec, deps, signal, growing } = turn;
  const { state } = growing;
  // The answer that asked for them says so in the same write, unless they waited for a worker since then.
  if (!turn.inCalls && !deps.suspect?.calls) await deps.record([], 'calls');
  turn.inCalls = false;
  // No await before the write is asked for: the events would leave without it.
  const record: ToolHost['record'] = async (entries, events = []) => {
    for (const event of events) deps.emit(event);
    for (const entry of entries) growing.add(entry);
    if (state.answer && !hasOpenCalls(state)) {
      const { usage, finishReason } = state.answer;
      deps.emit({ type: 'step.end', stepNumber: state.step, usage, finishReason });
    }
    await deps.record(entries, hasOpenCalls(state) ? undefined : 'idle');
  };
  const host: ToolHost = {
    step: state.step,
    maxParallel: spec.limits.maxParallelTools,
    maxDelegated: spec.limits.subagentFanoutPerStep,
    unknownCalls: state.unknownCalls,
    messages: state.messages,
    promoted: state.promoted,
    asked: state.asked,
    clock: deps.clock,
    redactor: deps.redactor,
    emit: (event) => deps.emit(event),
    record,
  };
  return await deps.tools.run(state.calls, host, signal);
}
