import { expect, test } from 'vitest';
import { systemClock } from '../../../src/shared/base/clock.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import type { AssistantPart } from '../../../src/shared/contract/message.ts';
import type { ThreadItem } from '../../../src/shared/contract/thread/thread-items.ts';
import { recordTurn, takeThread } from '../../../src/worker/run/run-thread.ts';
import { foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import { aRecord } from '../../contract/run-fixtures.ts';
import { clientWorld, type ClientWorld } from '../cli/options/client.ts';
import { modelResponse, aThread, toolResult, tenant, workerThreads } from '../support/threads.ts';

const at = '2026-01-02T03:04:05.000Z';
const prompt = 'And order 8?';
const textPart = (text: string): AssistantPart => ({ type: 'text', text });
const thought: AssistantPart = { type: 'reasoning', text: 'hm', provider: 'p' };
const call = (id: string, args = '{}'): AssistantPart => ({ type: 'tool_call', id, name: 'look', args });
const steered = (id: string, text: string): JournalEntry => ({ v: 1, t: 'steered', messages: [{ id, text, at }] });

function compacted(step: number, replaced: number): JournalEntry {
  const tokens = { beforeTokens: 9, afterTokens: 2, summaryTokens: 1, durationMs: 1 };
  const summary = `What was textPart before step ${step}.`;
  return { v: 1, t: 'compacted', step, source: 'pre-step', summary, replaced, attempts: [], ...tokens };
}

/** Everything that a turn can contain, in a possible order. */
const story: readonly JournalEntry[] = [
  { v: 1, t: 'agent_started', model: 'm', at },
  compacted(1, 3),
  modelResponse(1, thought, textPart('I look.'), call('c1'), call('c2', '{"n":1}')),
  { v: 1, t: 'tool_intent', step: 1, indexes: [0] },
  toolResult(1, 1, 'c2'),
  toolResult(1, 0, 'c1'),
  steered('m1', 'Quickly.'),
  steered('m2', prompt),
  modelResponse(2, thought),
  { v: 1, t: 'repair', step: 2, problem: 'it is empty' },
  compacted(3, 8),
  modelResponse(3, call('c1'), call('c1')),
  toolResult(3, 1, 'c1'),
  {
    v: 1,
    t: 'suspended',
    seq: 1,
    reason: 'approval',
    at,
    asks: [{ index: 0, id: 'a', kind: 'approval', requestedAt: at, expiresAt: at }],
  },
  {
    v: 1,
    t: 'decided',
    at,
    decisions: [{ id: 'a', kind: 'approval', granted: true, updatedArgs: { n: 2 }, by: [], at }],
  },
  toolResult(3, 0, 'c1'),
  { v: 1, t: 'retrying', number: 1, resumeAt: at, calls: [0] },
  toolResult(3, 0, 'c1'),
  modelResponse(4, textPart('Another team knows.'), call('c3')),
  toolResult(4, 0, 'c3'),
  { v: 1, t: 'handed_off', step: 4, from: 'support', to: 'billing', filter: { kind: 'last-n', n: 5 } },
  compacted(5, 3),
  modelResponse(5, call('c4')),
  toolResult(5, 0, 'c4'),
  { v: 1, t: 'handed_off', step: 5, from: 'billing', to: 'shipping', filter: { kind: 'last-user' } },
  steered('m2', prompt),
  modelResponse(6, textPart('Both are shipped.')),
];

/** Without what differs between what is live and what has been written. */
function bare(items: readonly ThreadItem[]): unknown[] {
  return items
    .filter((item) => !(item.kind === 'tool_result' && item.content.includes('no result')))
    .map((item) => ({ ...item, seq: 0, live: undefined, at: '' }));
}

async function messages({ mill }: ClientWorld, thread: string): Promise<readonly ThreadItem[]> {
  return (await mill.threads.messages(thread)).messages;
}

/** The thread while the turn has come to the end of this journal, and after the end of the turn there. */
async function seen(world: ClientWorld, thread: string, journal: readonly JournalEntry[], runId: string) {
  const { redis, keys } = world;
  const ports = { threads: workerThreads(world), clock: systemClock };
  const record = aRecord({ runId, request: { agent: 'support', input: prompt, thread } });
  await redis.hset(keys.run(runId), { tenant, updatedAt: at });
  if (journal.length > 0) await redis.rpush(keys.journal(runId), ...journal.map((entry) => JSON.stringify(entry)));
  const taken = await takeThread(record, { content: prompt }, ports);
  if (!taken || taken === 'waiting') throw new Error('the thread is not locked');
  const live = await messages(world, thread);
  const state = foldJournal([...taken.past, { role: 'user', content: prompt }], journal);
  await recordTurn(taken.thread, { status: 'failed', state, durationMs: 1 }, ports);
  const written = await messages(world, thread);
  await ports.threads.leave(tenant, thread, runId);
  return { live, written, after: await messages(world, thread) };
}

test('what a reader sees of a turn that goes on is what is there after its end, wherever it ends', async () => {
  const world = await clientWorld();
  for (let length = 0; length <= story.length; length++) {
    const thread = `t${length}`;
    await aThread(world, thread);
    const { live, written, after } = await seen(world, thread, story.slice(0, length), `run-${length}`);
    expect(bare(live), `after ${length} entries`).toEqual(bare(after));
    expect(written, `after ${length} entries`).toEqual(after);
  }
});

test('of a redriven run only what is new shows as live', async () => {
  const world = await clientWorld();
  await aThread(world, 't1');
  const first = story.slice(0, 21);
  await seen(world, 't1', first, 'again');
  await aThread(world, 't1', 'between');
  await world.redis.del(world.keys.journal('again'));
  for (const length of [21, 22, 23, 27]) {
    await aThread(world, `copy${length}`);
    await seen(world, `copy${length}`, first, `again${length}`);
    await aThread(world, `copy${length}`, `between${length}`);
    await world.redis.del(world.keys.journal(`again${length}`));
    const { live, after } = await seen(world, `copy${length}`, story.slice(0, length), `again${length}`);
    expect(bare(live), `after ${length} entries`).toEqual(bare(after));
    expect(live.filter((item) => item.live)).toHaveLength({ 21: 0, 22: 0, 23: 1, 27: 3 }[length] ?? -1);
  }
});
