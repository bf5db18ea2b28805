import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFailed, onTestFinished, test } from 'vitest';
import { Fleet } from '../support/fleet.ts';
import { LimitedProvider } from '../support/limited-provider.ts';
import { until } from '../support/redis.ts';

/** Stands for a minute. */
const windowMs = 6_000;
const [requests, tokens] = [60, 20_000];
const scale = 60_000 / windowMs;
const tenants = ['one', 'two', 'three', 'four', 'five', 'six'];
const runsPerTenant = 10;
const floodingRuns = 140;
/** Every run is one of so many in a row: 200 at a time. */
const rounds = 2;

/**
 * A window is a tenth of a real one here, and so is the margin for calls that take long to arrive. Where the machine halts
 * a process for longer than that, a call comes late and is refused: such a stray out of 500 is no matter, a rate limiter that
 * counts wrongly sends dozens.
 */
const strays = 2;

interface Submitted {
  readonly tenant: string;
  readonly runId: string;
  readonly atMs: number;
}

/** Three workers at a provider that refuses what goes beyond its limits, which are configured or not. */
async function makeCrew(known: boolean) {
  const provider = await LimitedProvider.start({
    requests,
    tokens,
    windowMs,
    latencyMs: (random) => 50 + 200 * random,
    outputTokens: (random) => 100 + 200 * random,
  });
  const folder = mkdtempSync(join(tmpdir(), 'millrace-rate-limiter-'));
  const limits = known ? `requestsPerMinute: ${requests * scale}, tokensPerMinute: ${tokens * scale}, ` : '';
  writeFileSync(
    join(folder, 'providers.yaml'),
    `[{ id: openai, kind: openai, baseUrl: "${provider.baseUrl}", keyEnv: OPENAI_API_KEY,
        limits: { ${limits}windowMs: ${windowMs} } }]`,
  );
  const fleet = new Fleet({
    env: {
      MILLRACE_PROVIDERS: join(folder, 'providers.yaml'),
      WORKER_CONCURRENCY: '20',
      PROVIDER_WAIT_MS: String(5_000 / scale),
      // Two cores for all of this: no slow worker may count as lost.
      LOCK_DURATION_MS: '15000',
      STALLED_INTERVAL_MS: '5000',
      LOG_LEVEL: 'warn',
    },
  });
  onTestFinished(async () => {
    await provider[Symbol.asyncDispose]();
    await fleet.dispose();
    rmSync(folder, { recursive: true });
  });
  onTestFailed(() => void process.stderr.write(`${fleet.report}\n`));
  await Promise.all([1, 2, 3].map(() => fleet.startWorker()));

  /** Keeps so many runs of a tenant going, one after the other. */
  const submit = async (tenant: string, runs: number): Promise<readonly Submitted[]> => {
    const client = fleet.client(tenant);
    const lanes = Array.from({ length: runs }, async () => {
      const submitted: Submitted[] = [];
      for (let round = 0; round < rounds; round++) {
        const atMs = performance.now();
        const run = await client.enqueue({ agent: 'plain', input: `tenant:${tenant} ${'word '.repeat(60)}` });
        submitted.push({ tenant, runId: run.runId, atMs });
        await run.result({ signal: AbortSignal.timeout(150_000) });
      }
      return submitted;
    });
    return (await Promise.all(lanes)).flat();
  };
  return { provider, fleet, submit };
}

/** From the enqueueing of a run to its first call that was served. */
function waitsOf(runs: readonly Submitted[], provider: LimitedProvider): readonly number[] {
  const served = new Map<string, number>();
  for (const { runId, atMs, refused } of provider.calls) {
    if (!refused && !served.has(runId)) served.set(runId, atMs);
  }
  return runs.map(({ runId, atMs }) => (served.get(runId) ?? Infinity) - atMs);
}

function p95(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.95)] as number;
}

/** Figures vary with the machine: they are printed, and only counts are asserted. */
function print(what: Readonly<Record<string, number>>): void {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

test('two hundred runs at three workers stay within a provider\u2019s limits and use them, and a flood starves no tenant', async () => {
  const { provider, submit } = await makeCrew(true);
  const alone = waitsOf((await Promise.all(tenants.map((tenant) => submit(tenant, runsPerTenant)))).flat(), provider);
  await until('the window is empty again', () => performance.now() - (provider.calls.at(-1)?.atMs ?? 0) > windowMs);

  const from = performance.now();
  const flood = submit('flood', floodingRuns);
  const small = (await Promise.all(tenants.map((tenant) => submit(tenant, runsPerTenant)))).flat();
  const smallDoneAt = performance.now();
  await flood;
  const waits = waitsOf(small, provider);
  print({
    calls: provider.calls.length,
    refused: provider.refusedSince(),
    utilisation: provider.utilisation(from + windowMs, performance.now() - windowMs / 6),
    aloneP95Ms: p95(alone),
    floodedP95Ms: p95(waits),
    ratio: p95(waits) / p95(alone),
  });
  expect(provider.refusedSince()).toBeLessThanOrEqual(strays);
  expect(provider.calls.filter(({ tenant, refused }) => tenant === 'flood' && !refused)).toHaveLength(
    floodingRuns * rounds,
  );
  const servedMeanwhile = provider.calls.filter(({ tenant, atMs }) => tenant === 'flood' && atMs < smallDoneAt);
  expect(servedMeanwhile.length).toBeLessThan(floodingRuns * rounds);
});

test('limits that are not configured are learnt in the first window, and kept from then on', async () => {
  const { provider, submit } = await makeCrew(false);
  const from = performance.now();
  await submit('flood', 200);
  print({
    refusedAtFirst: provider.refusedSince(),
    utilisation: provider.utilisation(from + 2 * windowMs, performance.now() - windowMs / 6),
  });
  expect(provider.refusedSince(from + 2 * windowMs)).toBeLessThanOrEqual(strays);
  expect(new Set(provider.calls.filter(({ refused }) => !refused).map(({ runId }) => runId)).size).toBe(200 * rounds);
});
