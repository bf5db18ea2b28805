import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { microcentsPerUsd } from '../../src/producer/index.ts';
import { chat, startRawProvider } from '../support/raw-provider.ts';
import { until } from '../support/redis.ts';
import { seeded } from '../support/seeded.ts';
import { makeWorld, type World } from '../support/world.ts';

const runs = 200;
const kills = 10;
const everyMs = 2_000;
const capUsd = 1;
const usdPerMillion = 5;
/** Up to two cents a call: all runs together want about twice the cap. */
const mostOutput = 4_000;

const prices = join(mkdtempSync(join(tmpdir(), 'millrace-')), 'prices.yaml');
const price = `{ model: dear, inputUsdPerMillion: ${usdPerMillion}, outputUsdPerMillion: ${usdPerMillion} }`;
writeFileSync(prices, `date: '2026-11-01'\nprices: [${price}]\n`);

/**
 * A model that bills each request when it arrives, for the prompt and for an answer of any length that the request
 * allows. One that counted more tokens than a prompt has bytes could pass a cap, by the calls under way when that shows.
 */
async function dearProvider() {
  const random = seeded();
  const bill = { microcents: 0 };
  const server = await startRawProvider(
    chat((body) => {
      const prompt = Math.ceil(Buffer.byteLength(JSON.stringify(body.messages)) / 4);
      const allowed = body.max_completion_tokens ?? body.max_tokens ?? mostOutput;
      const output = Math.min(random.below(mostOutput) + 1, allowed);
      bill.microcents += Math.ceil(((prompt + output) * usdPerMillion * microcentsPerUsd) / 1e6);
      const usage = { prompt_tokens: prompt, completion_tokens: output, total_tokens: prompt + output };
      return { text: 'one two three', delayMs: 100 + random.below(200), usage };
    }),
  );
  return { server, bill };
}

async function replaceWorker(world: World, index: number): Promise<void> {
  const [victim] = world.workers.splice(index, 1);
  await victim?.kill();
  await world.addWorker();
}

test('a batch never spends more than its cap while its workers are killed, and goes on after a top-up', async () => {
  const random = seeded();
  const { server, bill } = await dearProvider();
  await using provider = server;
  const env = { WORKER_CONCURRENCY: '10', MILLRACE_PRICES: prices, OPENAI_BASE_URL: provider.url };
  const world = await makeWorld({ workers: 2, env });
  const { mill } = world;
  const batch = 'storm';
  const cap = capUsd * microcentsPerUsd;
  await mill.budgets.set('batch', batch, { maxCostUsd: capUsd, onExceed: 'pause' });
  const account = () => mill.budgets.get('batch', batch);
  const answers = await mill.enqueueMany(
    Array.from({ length: runs }, () => ({ agent: 'plain', input: 'go', batch, overrides: { model: 'dear' } })),
  );
  const ids = answers.map((answer) => ('runId' in answer ? answer.runId : ''));

  for (let kill = 0; kill < kills; kill++) {
    await new Promise((resolve) => setTimeout(resolve, everyMs));
    await replaceWorker(world, random.below(world.workers.length));
    expect(bill.microcents, 'billed while workers die').toBeLessThanOrEqual(cap);
    expect((await account()).spentMicrocents).toBeLessThanOrEqual(cap);
  }

  const still = async () => {
    const views = await Promise.all(ids.map((runId) => mill.get(runId)));
    return views.every(({ status }) => status === 'suspended' || status === 'completed') && views;
  };
  const quiet = await until('every run has ended or waits for money', still, 60_000);
  const spent = await until(
    'nothing is held',
    async () => {
      const state = await account();
      return state.reservedMicrocents === 0 ? state : undefined;
    },
    60_000,
  );
  const waiting = quiet ? quiet.filter(({ status }) => status === 'suspended').length : 0;
  expect(waiting, 'the cap stopped somebody').toBeGreaterThan(10);
  expect(bill.microcents).toBeLessThanOrEqual(spent.spentMicrocents);
  expect(spent.spentMicrocents).toBeLessThanOrEqual(cap);

  await mill.budgets.topUp('batch', batch, { usd: 20 });
  const results = await Promise.all(ids.map((runId) => mill.result(runId)));
  expect(results.filter(({ status }) => status !== 'completed')).toEqual([]);
  await expect.poll(async () => (await account()).reservedMicrocents, { timeout: 60_000 }).toBe(0);
  expect(bill.microcents).toBeLessThanOrEqual((await account()).spentMicrocents);
});
