import { expect, test } from 'vitest';
import { tenantsOf } from '../../../src/shared/contract/tenants.ts';
import type { EmbeddedMessage, Embedder } from '../../../src/worker/jobs/embeddings.ts';
import { agentId, makePostRunWorld, runId, tenant, threadId } from './post-run-world.ts';
import { redisLedgerWorld } from '../../contract/ledger-redis-world.ts';

function anEmbedder(more: Partial<Embedder> = {}) {
  const asked: (readonly string[])[] = [];
  const kept: EmbeddedMessage[] = [];
  const embedder: Embedder = {
    id: 'vectors',
    model: 'embed-3',
    microcentsPerMillionTokens: 2_000_000,
    async embed(texts) {
      asked.push(texts);
      return { vectors: texts.map((text) => [text.length, 1]), inputTokens: 50 };
    },
    keep: async (messages) => void kept.push(...messages),
    ...more,
  };
  return { asked, kept, embedder };
}

test('the last message of the user and its answer are kept with their vectors, paid for, and emitted', async () => {
  const { asked, kept, embedder } = anEmbedder();
  const world = makePostRunWorld({ embedder });
  await world.turn('Where is order 7?', 'On its way.');
  await world.follow('embeddings');
  expect(asked).toEqual([['Where is order 7?', 'On its way.']]);
  const base = { tenant, threadId, agentId, runId };
  expect(kept).toEqual([
    { ...base, seq: 1, role: 'user', text: 'Where is order 7?', vector: [17, 1] },
    { ...base, seq: 2, role: 'assistant', text: 'On its way.', vector: [11, 1] },
  ]);
  expect(world.settled).toMatchObject([
    { accounts: { tenant, agentId }, provider: 'vectors', model: 'embed-3', costMicrocents: 100, priced: true },
  ]);
  expect(await world.events()).toMatchObject([{ type: 'thread.embedding_done', model: 'embed-3', messages: 2 }]);
});

test('only messages of the run are embedded, and none of a turn that was taken back', async () => {
  const { asked, embedder } = anEmbedder();
  const world = makePostRunWorld({ embedder });
  await world.turn('Where is order 7?', 'On its way.', '01K9Z5N3T8R6V2X4B7C1D0E9AA');
  await world.follow('embeddings');
  expect(asked).toEqual([]);
  expect(await world.events()).toEqual([]);
});

test('without an embedder nothing happens', async () => {
  const world = makePostRunWorld();
  await world.turn('Where is order 7?', 'On its way.');
  await world.follow('embeddings');
  expect(await world.events()).toEqual([]);
});

test.each<[string, Partial<Embedder>, string]>([
  [
    'throws',
    { embed: () => Promise.reject(new Error('broken: sk-abcdefgh12345')) },
    'vectors failed in an unknown way',
  ],
  ['hangs', { embed: () => new Promise(() => {}) }, 'it took longer than 50 ms'],
  ['answers too few vectors', { embed: async () => ({ vectors: [[1]] }) }, 'did not answer one vector for each text'],
  [
    'cannot keep them',
    { keep: () => Promise.reject(new Error('disk full: sk-abcdefgh12345')) },
    'disk full: [redacted]',
  ],
])('an embedder that %s is emitted as a failure', async (_, more, message) => {
  const { embedder } = anEmbedder(more);
  const world = makePostRunWorld({ embedder, deadlineMs: 50 });
  await world.turn('Where is order 7?', 'On its way.');
  await world.follow('embeddings');
  expect(await world.events()).toMatchObject([
    { type: 'postrun.failed', effect: 'embeddings', error: { message: expect.stringContaining(message) } },
  ]);
});

test('a call of unknown outcome counts as spent, and the reservation of a lost worker is written off', async () => {
  const { embedder } = anEmbedder({ embed: () => new Promise(() => {}) });
  const budget = { maxCostMicrocents: 1_000, window: 'day', onExceed: 'fail', unpriced: 'deny' } as const;
  const tenants = tenantsOf({ tenants: { [tenant]: { budget } } });
  const { ledger } = await redisLedgerWorld(tenants);
  const world = makePostRunWorld({ embedder, tenants, ledger, deadlineMs: 30 });
  await world.turn('Where is order 7?', 'On its way.');
  await world.follow('embeddings');
  expect(world.settled).toMatchObject([{ unconfirmed: true }]);
  const accounts = { runId: `embeddings:${runId}`, tenant, agentId };
  const reservation = {
    accounts,
    id: 'dead:1',
    provider: 'vectors',
    model: 'embed-3',
    wanted: 900,
    least: 900,
    force: false,
  };
  expect((await world.ports.ledger.reserve(reservation)).kind).toBe('reserved');
  await world.follow('embeddings', { isRepeat: true, isLast: true });
  expect(await world.ports.ledger.reserve({ ...reservation, id: 'new:1', wanted: 90, least: 90 })).toMatchObject({
    kind: 'exceeded',
    account: { scope: 'tenant', reservedMicrocents: 0 },
  });
});

test('where the tenant denies what has no price, nothing is embedded without one', async () => {
  const { asked, embedder } = anEmbedder();
  const { microcentsPerMillionTokens: _, ...unpriced } = embedder;
  const budget = { maxCostMicrocents: 1_000, window: 'day', onExceed: 'fail', unpriced: 'deny' } as const;
  const tenants = tenantsOf({ tenants: { [tenant]: { budget } } });
  const { ledger } = await redisLedgerWorld(tenants);
  const world = makePostRunWorld({ embedder: unpriced, tenants, ledger });
  await world.turn('Where is order 7?', 'On its way.');
  await world.follow('embeddings');
  expect(asked).toEqual([]);
  expect(await world.events()).toMatchObject([{ type: 'postrun.failed', error: { code: 'budget_unpriced' } }]);
});
