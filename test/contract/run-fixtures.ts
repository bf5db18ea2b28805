import { newNonce, newRunId } from '../../src/shared/base/ids.ts';
import type { JournalEntry } from '../../src/shared/contract/journal/journal.ts';
import type { RunRecord } from '../../src/shared/contract/run.ts';
import type { Commit } from '../../src/shared/state/run/commit.ts';
import type { ClaimRequest } from '../../src/shared/state/run/claim.ts';
import type { OutgoingEvent } from '../../src/shared/state/script.ts';

const at = '2026-01-02T03:04:05.000Z';

export function aRecord(changes: Partial<RunRecord> = {}): RunRecord {
  return {
    v: 1,
    runId: newRunId(Date.now()),
    tenant: 'default',
    kind: 'agent.turn',
    status: 'queued',
    request: { agent: 'support', input: 'Where is order 7?' },
    queue: 'runs',
    segment: 0,
    createdAt: at,
    updatedAt: at,
    lastSequence: 1,
    epoch: 0,
    crashes: 0,
    steps: 0,
    costMicrocents: 0,
    attempts: [],
    pending: [],
    ...changes,
  };
}

export function aClaim(runId: string, changes: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    runId,
    owner: newNonce(),
    segment: 0,
    jobTry: 1,
    worker: 'w1',
    queue: 'runs',
    crashLimit: 2,
    blameLimit: 9,
    activity: 'idle',
    ...changes,
  };
}

export function aCommit(seq: number, changes: Partial<Commit> = {}): Commit {
  return { op: newNonce(), seq, entries: [], events: [], ...changes };
}

export function aTerminalCommit(runId: string, seq: number, changes: Partial<Commit> = {}): Commit {
  const patch = { status: 'completed', endedAt: at } as const;
  return aCommit(seq, { events: [completed(runId)], patch, release: 'terminal', ...changes });
}

export const opening = (runId: string): OutgoingEvent[] => [
  { runId, timestamp: at, type: 'execution.started' },
  { runId, timestamp: at, type: 'run.started', kind: 'agent.turn', attempt: 1 },
];

export const recovering = (runId: string): OutgoingEvent[] => [
  { runId, timestamp: at, type: 'run.recovered', fromCheckpoint: 0 },
];

export function delta(runId: string, text: string): OutgoingEvent {
  return { runId, timestamp: at, type: 'text.delta', delta: text, model: 'm' };
}

export function complete(runId: string, text: string): OutgoingEvent {
  return { runId, timestamp: at, type: 'text.complete', text };
}

export function completed(runId: string): OutgoingEvent {
  const usage = { input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0, byModel: {} };
  const result = { text: 'It is shipped.' };
  return {
    runId,
    timestamp: at,
    type: 'run.completed',
    status: 'completed',
    result,
    usage,
    costMicrocents: 0,
    durationMs: 1,
    steps: 1,
  };
}

export const agentStarted = (model: string): JournalEntry => ({ v: 1, t: 'agent_started', model, at });
