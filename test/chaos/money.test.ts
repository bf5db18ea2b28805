import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { microcentsPerUsd } from '../../src/producer/index.ts';
import { lane } from '../support/lane.ts';
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

const microcentsPerToken = (usdPerMillion * microcentsPerUsd) / 1e6;

/** As models count: about four bytes to a token, and a few tokens around each message. */
function tokensOf(messages: readonly { readonly content: string }[]): number {
  return messages.reduce((sum, { content }) => sum + 3 + Math.ceil(Buffer.byteLength(content) / 4), 0);
}

/**
 * A model that bills each request in full when it arrives, for the prompt and for an answer of any length that the
 * request allows. `hidden` tokens are billed on top, which no size of a prompt gives away.
 */
async function dearProvider(hidden: number) {
  const random = seeded();
  const meter = { billed: 0, hurry: false };
  const server = await startRawProvider(
    chat((body) => {
      const prompt = tokensOf(body.messages) + hidden;
      const allowed = body.max_completion_tokens ?? body.max_tokens ?? mostOutput;
      const output = Math.min(random.below(mostOutput) + 1, allowed);
      meter.billed += (prompt + output) * microcentsPerToken;
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
 * A cap holds as far as estimates do. A provider that bills more than can be estimated shows by how much once a call has
 * cost more than its estimate; from then on that much more is reserved for each call. So it passes a cap at most by
 * what it hides in calls that were under way before that showed.
 */
const one = { what: 'never spends more than its cap', hidden: 0, runs: 30, kills: 1, capUsd: 0.15, leftUsd: 0.02 };
const storms = [
  { ...one, runs: 200, kills: 10, capUsd: 1 },
  {
    what: 'at a model with hidden costs spends no more than these beyond its cap',
    hidden: 700,
    runs: 80,
    kills: 3,
    capUsd: 0.5,
    leftUsd: 0.01,
  },
];

test.each(lane === 'all' ? storms : [one])(
  'a batch $what while its workers are killed, and goes on after a top-up',
  async ({ hidden, runs, kills, capUsd, leftUsd }) => {
    const random = seeded();
    const { server, meter } = await dearProvider(hidden);
    await using provider = server;
    const env = { WORKER_CONCURRENCY: `${concurrency}`, MILLRACE_PRICES: prices, OPENAI_BASE_URL: provider.url };
    const world = await makeWorld({ workers: 2, env });
    const { mill } = world;
    const batch = 'storm';
    const cap = capUsd * microcentsPerUsd;
    /** What is hidden in the calls that both workers make before the first answer shows it. */
    const surprise = hidden * microcentsPerToken * concurrency * 2;
    await mill.budgets.set('batch', batch, { maxCostUsd: capUsd, onExceed: 'pause_for_approval' });
    const account = () => mill.budgets.get('batch', batch);
    const answers = await mill.enqueueMany(
      Array.from({ length: runs }, () => ({ agent: 'plain', input: 'go', batch, overrides: { model: 'dear' } })),
    );
    const ids = answers.map((answer) => ('runId' in answer ? answer.runId : ''));
    const views = () => Promise.all(ids.map((runId) => mill.get(runId)));

    for (let kill = 0; kill < kills; kill++) {
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      await replaceWorker(world, random.below(world.workers.length));
      expect(meter.billed, 'billed while workers die').toBeLessThanOrEqual(cap + surprise);
      expect((await account()).spentMicrocents, 'spent while workers die').toBeLessThanOrEqual(cap + surprise);
    }

    const quiet = await until(
      'every run has ended or waits for money, and none is reserved',
      async () => {
        const [all, { waiting, reservedMicrocents }] = await Promise.all([views(), account()]);
        const completed = all.filter(({ status }) => status === 'completed').length;
        return waiting + completed === runs && reservedMicrocents === 0 ? { waiting, completed } : undefined;
      },
      60_000,
    );
    const recoveries = (await views()).reduce((sum, view) => sum + view.recoveries, 0);
    expect(recoveries, 'the kills hit runs').toBeGreaterThanOrEqual(kills);
    expect(quiet.waiting, 'the cap stopped many').toBeGreaterThan(runs / 4);
    expect(quiet.completed, 'not at once').toBeGreaterThan(runs / 10);
    const atCap = await account();
    expect(meter.billed).toBeLessThanOrEqual(atCap.spentMicrocents + surprise);
    expect(atCap.spentMicrocents).toBeLessThanOrEqual(cap + surprise);
    expect(cap - atCap.spentMicrocents, 'what is left would not pay for a call').toBeLessThan(
      leftUsd * microcentsPerUsd,
    );

    meter.hurry = true;
    await mill.budgets.topUp('batch', batch, { usd: 20 });
    const results = await Promise.all(ids.map((runId) => mill.result(runId)));
    expect(results.filter(({ status }) => status !== 'completed')).toEqual([]);
    await until('nothing is reserved', async () => (await account()).reservedMicrocents === 0, 60_000);
    const { spentMicrocents, waiting } = await account();
    expect(waiting).toBe(0);
    expect(meter.billed).toBeLessThanOrEqual(spentMicrocents + surprise);
  },
);
