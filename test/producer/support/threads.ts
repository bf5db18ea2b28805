import { systemClock } from '../../../src/shared/base/clock.ts';
import { newNonce } from '../../../src/shared/base/ids.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import type { AssistantPart } from '../../../src/shared/contract/message.ts';
import { zeroUsage } from '../../../src/shared/contract/money.ts';
import type { ThreadEntry } from '../../../src/shared/contract/thread/thread.ts';
import { type ThreadStore, redisThreads } from '../../../src/shared/state/thread/threads.ts';
import type { ClientWorld } from '../cli/options/client.ts';

const at = '2026-01-02T03:04:05.000Z';
export const tenant = 'default';

/** The threads as a worker has them. */
export function workerThreads({ redis, keys }: ClientWorld): ThreadStore {
  return redisThreads({ redis, keys, cluster: false, clock: systemClock }, async () => {});
}

/** What a turn with one call leaves in a thread: five entries. */
export function turnEntries(runId: string): ThreadEntry[] {
  const message = { v: 1, t: 'message', runId, at } as const;
  const call = { type: 'tool_call', id: 'c1', name: 'look', args: '{"order":7}' } as const;
  return [
    { ...message, message: { role: 'user', content: 'Where is order 7?' } },
    { ...message, message: { role: 'assistant', parts: [{ type: 'text', text: 'I look.' }, call] } },
    { ...message, message: { role: 'tool', toolCallId: 'c1', toolName: 'look', content: 'shipped' } },
    { ...message, message: { role: 'assistant', parts: [{ type: 'text', text: 'It is shipped.' }] } },
    { v: 1, t: 'result', runId, at, status: 'completed', costMicrocents: 700, durationMs: 5, steps: 2 },
  ];
}

/** A thread in which a run had its turn. */
export async function aThread(
  world: ClientWorld,
  threadId: string,
  runId = 'run1',
  agentId = 'support',
): Promise<void> {
  await lockThread(world, threadId, runId, turnEntries(runId), agentId);
  await workerThreads(world).leave(tenant, threadId, runId);
}

/** Gives a thread to a run, which writes these entries. */
export async function lockThread(
  world: ClientWorld,
  threadId: string,
  runId: string,
  entries: readonly ThreadEntry[],
  agentId = 'support',
): Promise<void> {
  const threads = workerThreads(world);
  const acquired = await threads.acquire({ tenant, threadId, runId, agentId, epoch: 1 });
  if (acquired.kind !== 'acquired') throw new Error(`run ${runId} does not have the lock of ${threadId}`);
  await threads.append({ tenant, threadId, runId, fence: acquired.fence }, newNonce(), entries);
}

/** Gives the thread the title that a post-run job made. */
export async function titled(world: ClientWorld, threadId: string, title: string): Promise<void> {
  const origin = { agentId: 'support', runId: 'run1' };
  const event = { type: 'thread.title_generated', title } as const;
  await workerThreads(world).emit({ tenant, threadId }, origin, title, event);
}

/** What a step leaves in the journal of a run. */
export function modelResponse(step: number, ...parts: AssistantPart[]): JournalEntry {
  const message = { role: 'assistant' as const, parts };
  const spent = { usage: zeroUsage, attempts: [], provider: 'p', model: 'm' };
  return { v: 1, t: 'model_response', step, message, finishReason: 'tool_use', ...spent };
}

export function toolResult(step: number, index: number, toolCallId: string): JournalEntry {
  return { v: 1, t: 'tool_result', step, index, toolCallId, toolName: 'look', content: 'shipped' };
}
