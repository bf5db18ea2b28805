import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { microcentsPerUsd } from '../../src/producer/index.ts';
import { chat, startRawProvider } from '../support/raw-provider.ts';
import { until } from '../support/redis.ts';
import { seeded } from '../support/seeded.ts';
import { makeWorld, type World } from '../support/world.ts';

const everyMs = 2_000;
/** Runs at once in each of two workers: each kill leaves the calls of one as money that may be spent. */
const concurrency = 3;
const usdPerMillion = 5;
/** Up to two cents a call, one on average: all runs together want about twice their cap. */
const mostOutput = 4_000;

const prices = join(mkdtempSync(join(tmpdir(), 'millrace-')), 'prices.yaml');
const price = `{ model: dear, inputUsdPerMillion: ${usdPerMillion}, outputUsdPerMillion: ${usdPerMillion} }`;
writeFileSync(prices, `date: '2026-11-01'\nprices: [${price}]\n`);

/**
 * A model that bills each request in full when it arrives, for the prompt and for an answer of any length that the
 * request allows. `hidden` tokens are billed on top, which no size of a prompt gives away.
 */
async function dearProvider(hidden: number) {
  const random = seeded();
  const meter = { billed: 0, hurry: false };
  const server = await startRawProvider(
    chat((body) => {
      const prompt = Math.ceil(Buffer.byteLength(JSON.stringify(body.messages)) / 4) + hidden;
      const allowed = body.max_completion_tokens ?? body.max_tokens ?? mostOutput;
      const output = Math.min(random.below(mostOutput) + 1, allowed);
      meter.billed += Math.ceil(((prompt + output) * usdPerMillion * microcentsPerUsd) / 1e6);
      const usage = { prompt_tokens: prompt, completion_tokens: output, total_tokens: prompt + output };
      return { text: 'one two three', delayMs: meter.hurry ? 0 : 150 + random.below(300), usage };
    }),
  );
  return { server, meter };
}

async function replaceWorker(world: World, index: number): Promise<void> {
  const [victim] = world.workers.splice(index, 1);
  await victim?.kill();
  await world.addWorker();
}

/**
 * A cap holds as far as estimates do: never less than what is billed in the first case. In the second one the first
 * answers show that this model costs more, and all later calls are held to it. A provider that billed more than ever
 * before in the very last calls would pass the cap, by that difference for each call under way.
 */
test.each([
  { what: 'bills what could be estimated', hidden: 0, runs: 200, kills: 10, capUsd: 1 },
  { what: 'always bills more than could be estimated', hidden: 700, runs: 80, kills: 3, capUsd: 0.5 },
])(
  'a batch at a model that $what never spends more than its cap while workers are killed, and goes on after a top-up',
  async ({ hidden, runs, kills, capUsd }) => {
    const random = seeded();
    const { server, meter } = await dearProvider(hidden);
    await using provider = server;
    const env = { WORKER_CONCURRENCY: `${concurrency}`, MILLRACE_PRICES: prices, OPENAI_BASE_URL: provider.url };
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
    const views = () => Promise.all(ids.map((runId) => mill.get(runId)));

    for (let kill = 0; kill < kills; kill++) {
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      await replaceWorker(world, random.below(world.workers.length));
      expect(meter.billed, 'billed while workers die').toBeLessThanOrEqual(cap);
      expect((await account()).spentMicrocents, 'spent while workers die').toBeLessThanOrEqual(cap);
    }

    const quiet = await until(
      'every run has ended or waits for money, and none is held',
      async () => {
        const [all, { waiting, reservedMicrocents }] = await Promise.all([views(), account()]);
        const completed = all.filter(({ status }) => status === 'completed').length;
        return waiting + completed === runs && reservedMicrocents === 0 ? { waiting, completed } : undefined;
      },
      60_000,
    );
    const recoveries = (await views()).reduce((sum, view) => sum + view.recoveries, 0);
    expect(recoveries, 'the storm hit somebody').toBeGreaterThanOrEqual(kills);
    expect(quiet.waiting, 'the cap stopped many').toBeGreaterThan(runs / 4);
    expect(quiet.completed, 'not at once').toBeGreaterThan(runs / 10);
    const atCap = await account();
    expect(meter.billed).toBeLessThanOrEqual(atCap.spentMicrocents);
    expect(atCap.spentMicrocents).toBeLessThanOrEqual(cap);
    expect(cap - atCap.spentMicrocents, 'what is left would not pay for a call').toBeLessThan(cap / 50);

    meter.hurry = true;
    await mill.budgets.topUp('batch', batch, { usd: 20 });
    const results = await Promise.all(ids.map((runId) => mill.result(runId)));
    expect(results.filter(({ status }) => status !== 'completed')).toEqual([]);
    await until('nothing is held', async () => (await account()).reservedMicrocents === 0, 60_000);
    const { spentMicrocents, waiting } = await account();
    expect(waiting).toBe(0);
    expect(meter.billed).toBeLessThanOrEqual(spentMicrocents);
  },
);
