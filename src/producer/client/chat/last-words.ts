import { eventVersion, type RunEvent } from '../../../shared/contract/event.ts';
import { zeroUsage } from '../../../shared/contract/money.ts';
import type { RunView } from '../../../shared/contract/run.ts';

/** What the log of a run said at its end, made of its record: the whole text at once, then how it ended. */
export function lastWords(run: RunView, sessionId: string): readonly RunEvent[] {
  const { runId, status, lastSequence, costMicrocents, usage = { ...zeroUsage, byModel: {} } } = run;
  const sequenceNumber = Math.max(1, lastSequence);
  const envelope = { v: eventVersion, runId, sessionId, timestamp: run.endedAt ?? run.createdAt } as const;
  const end = { ...envelope, sequenceNumber, usage, costMicrocents };
  if (status === 'completed' || status === 'degraded' || status === 'blocked') {
    const { result = { text: '' }, steps, durationMs = 0 } = run;
    return [
      ...spoken(result.text, { ...envelope, sequenceNumber: Math.max(1, sequenceNumber - 1) }),
      { ...end, type: 'run.completed', status, result, durationMs, steps },
    ];
  }
  if (run.error) return [{ ...end, type: 'run.failed', error: run.error }];
  return [{ ...end, type: 'run.cancelled', drained: false }];
}

function spoken(
  delta: string,
  envelope: Pick<RunEvent, 'v' | 'runId' | 'sessionId' | 'timestamp' | 'sequenceNumber'>,
): RunEvent[] {
  return delta === '' ? [] : [{ ...envelope, type: 'text.delta', delta, model: '' }];
}
