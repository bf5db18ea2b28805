import type { ThreadEntryOf, ThreadMessage, OnBusy } from '../../src/shared/contract/thread/thread.ts';
import type { ThreadLock } from '../../src/shared/state/thread/lock.ts';
import type { ThreadStore } from '../../src/shared/state/thread/threads.ts';
import type { FakeClock } from '../../src/testing/fake-clock.ts';

export interface ThreadsWorld {
  readonly threads: ThreadStore;
  readonly clock: FakeClock;
}
export type MakeThreadsWorld = () => Promise<ThreadsWorld>;

export const tenant = 'acme';
export const at = '2026-01-02T03:04:05.000Z';
const agentId = 'support';

/** A run of the agent `support` in thread `t1`. */
export function aRun(runId: string, threadId = 't1') {
  return { tenant, threadId, runId, agentId, epoch: 1 };
}

export function enter(world: ThreadsWorld, runId: string, onBusy?: OnBusy, threadId?: string) {
  return world.threads.enter({ ...aRun(runId, threadId), ...(onBusy && { onBusy }) });
}

/** The lock of a thread for this run, which must be next. */
export async function acquire(world: ThreadsWorld, runId: string, threadId = 't1'): Promise<ThreadLock> {
  const acquired = await world.threads.acquire(aRun(runId, threadId));
  if (acquired.kind !== 'acquired')
    throw new Error(`run ${runId} does not have the lock of ${threadId}: ${acquired.kind}`);
  return { tenant, threadId, runId, fence: acquired.fence };
}

export function says(
  runId: string,
  message: ThreadMessage,
  changes: Partial<ThreadEntryOf<'message'>> = {},
): ThreadEntryOf<'message'> {
  return { v: 1, t: 'message', runId, at, message, ...changes };
}

export function asks(runId: string, content: string, key?: string): ThreadEntryOf<'message'> {
  return says(runId, { role: 'user', content }, key === undefined ? {} : { key });
}

export function answers(runId: string, text: string): ThreadEntryOf<'message'> {
  return says(runId, { role: 'assistant', parts: [{ type: 'text', text }] });
}

export function calls(runId: string, ...ids: string[]): ThreadEntryOf<'message'> {
  const parts = ids.map((id) => ({ type: 'tool_call' as const, id, name: 'look', args: '{"n":1}' }));
  return says(runId, { role: 'assistant', parts });
}

export function gets(runId: string, toolCallId: string): ThreadEntryOf<'message'> {
  return says(runId, { role: 'tool', toolCallId, toolName: 'look', content: 'found' });
}

export function summary(runId: string, text: string, upTo: number): ThreadEntryOf<'summary'> {
  return { v: 1, t: 'summary', runId, at, text, upTo };
}

export function ends(runId: string, status: ThreadEntryOf<'result'>['status']): ThreadEntryOf<'result'> {
  return { v: 1, t: 'result', runId, at, status, costMicrocents: 7, durationMs: 9, steps: 2 };
}

/** What is written in the thread, in short: its role, or what it is. */
export async function written(world: ThreadsWorld, threadId = 't1'): Promise<string[]> {
  const { entries } = await world.threads.read(tenant, threadId, { limit: 1_000 });
  return entries.map(({ entry }) => `${entry.runId}:${entry.t === 'message' ? entry.message.role : entry.t}`);
}
