import { performance } from 'node:perf_hooks';
import { systemClock } from '../src/shared/base/clock.ts';
import { startScratchRedis } from '../test/support/scratch-redis.ts';
import { connect, whenReady } from '../src/shared/state/connect.ts';
import { keysFor } from '../src/shared/state/keys.ts';
import { redisRateLimiter } from '../src/shared/state/limits/rate/polled-limiter.ts';
import { RateLimitedFleet, type FleetLoad } from '../test/support/rate-limited-fleet.ts';
import { LimitedProvider } from '../test/support/limited-provider.ts';
import { percentile } from './measure.ts';

// Three workers, 200 runs and a provider that allows 60 requests and 20,000 tokens in any stretch of a window. A minute
// is scaled down to `--window MS` (6000); `--known all|nothing` sets what is known about the limits beforehand.

const argOf = (name: string, fallback: string) => process.argv[process.argv.indexOf(name) + 1 || Infinity] ?? fallback;
const windowMs = Number(argOf('--window', '6000'));
const known = argOf('--known', 'all');
const meanTokens = Number(argOf('--tokens', '300'));
const perMinute = 60_000 / windowMs;

const small: readonly FleetLoad[] = Array.from({ length: 6 }, (_, i) => ({
  tenant: `small${i}`,
  runs: 10,
  callsPerRun: 3,
}));
const flood: FleetLoad = { tenant: 'flood', runs: 140, callsPerRun: 3 };

async function main(): Promise<void> {
  await using redis = await startScratchRedis();
  const solo = await measure('small tenants alone', redis.url, small);
  const flooded = await measure('with one that floods', redis.url, [flood, ...small]);
  console.log(`p95 of the small tenants: ${(flooded / solo).toFixed(2)} times`);
}

async function measure(name: string, redisUrl: string, loads: readonly FleetLoad[]): Promise<number> {
  await using provider = await LimitedProvider.start({
    requests: 60,
    tokens: 20_000,
    windowMs,
    latencyMs: (random) => 50 + 200 * random,
    outputTokens: (random) => (meanTokens - 100) * (0.5 + random),
  });
  const connections = await Promise.all(
    [1, 2, 3].map(async () => {
      const connection = connect(redisUrl, 'work', () => {});
      await whenReady(connection, 5_000);
      return connection;
    }),
  );
  const keys = keysFor(name.replaceAll(' ', ''));
  const limits = known === 'all' ? { requestsPerMinute: 60 * perMinute, tokensPerMinute: 20_000 * perMinute } : {};
  const { signal } = new AbortController();
  await using fleet = new RateLimitedFleet({
    governors: connections.map((connection) => redisRateLimiter({ redis: connection, keys, clock: systemClock })),
    baseUrl: provider.baseUrl,
    limits: { ...limits, windowMs },
    maxInlineWaitMs: 5_000 / perMinute,
    slots: 20,
    signal,
  });
  const startedAt = performance.now();
  await fleet.run(loads);
  const endedAt = performance.now();
  // While there is enough to do: not while it fills the first window, nor when the last runs end.
  const from = startedAt + windowMs;
  const to = endedAt - windowMs / 6;
  const waits = fleet.calls.filter((call) => call.tenant !== 'flood').map((call) => call.waitedMs);
  const p95 = percentile(waits, 95);
  console.log(name, {
    seconds: Math.round((endedAt - startedAt) / 1000),
    calls: fleet.calls.length,
    parked: fleet.calls.reduce((sum, { parked }) => sum + parked, 0),
    refused: provider.refusedSince(),
    refusedAfterWarmUp: provider.refusedSince(from),
    utilisation: Number(provider.utilisation(from, to).toFixed(3)),
    p50Ms: Math.round(percentile(waits, 50)),
    p95Ms: Math.round(p95),
  });
  for (const connection of connections) connection.disconnect();
  return p95;
}

await main();
