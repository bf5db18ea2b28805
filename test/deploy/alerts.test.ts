import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Queue } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import type { RunHandle } from '../../src/producer/index.ts';
import type { WorkerChild } from '../support/fleet.ts';
import { OwnRedis } from '../support/own-redis.ts';
import type { PlannedStep } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';
import { checkRules, playAlerts, scrape, total, withoutPromtool, type Recurrence, type Scrape } from './prometheus.ts';

const rules = join(import.meta.dirname, '../../docs/alerts.yaml');
const { groups } = parse(readFileSync(rules, 'utf8')) as { groups: { rules: { alert: string }[] }[] };
const alerts = groups.flatMap((group) => group.rules.map(({ alert }) => alert));

/** Agents, each with a model of its own, so that what befalls one model says nothing of another; and prices. */
function configured(): Record<string, string> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-alerts-agents-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const agent of ['steady', 'dear', 'unpriced', 'failing', 'refused'])
    writeFileSync(join(folder, `${agent}.yaml`), `model: m-${agent}\ninstructions: Be brief.\nretry: { max: 1 }\n`);
  writeFileSync(join(folder, 'hands.yaml'), 'model: m-steady\ninstructions: Act.\ntools: [charge, put]\n');
  const policy = 'dataFlowPolicy: { mode: enforce, tools: { put: { afterUntrusted: false } } }';
  const guarded = `tools: [look, put]\ntoolOptions: { look: { trust: external } }\n${policy}\n`;
  writeFileSync(join(folder, 'guarded.yaml'), `model: m-steady\ninstructions: Act.\n${guarded}`);
  symlinkSync(join(import.meta.dirname, '../fixtures/agents/tools'), join(folder, 'tools'));
  const prices = { 'm-steady': 1, 'm-dear': 100_000, 'm-failing': 1, 'm-refused': 1 };
  const lines = Object.entries(prices).map(
    ([model, usd]) => `  - { model: ${model}, inputUsdPerMillion: ${usd}, outputUsdPerMillion: ${usd} }`,
  );
  const pricesFile = join(folder, 'prices.txt');
  writeFileSync(pricesFile, `date: 2026-01-01\nprices:\n${lines.join('\n')}\n`);
  return { MILLRACE_AGENTS: folder, MILLRACE_PRICES: pricesFile, WORKER_CONCURRENCY: '2' };
}

/** A fleet of one producer, two workers and one for the quarantine, and what Prometheus would see of it. */
class Watched {
  readonly redis: OwnRedis;
  readonly world: World;
  readonly workers = new Map<string, WorkerChild>();
  /** Set to false, it is scraped no longer. */
  producer = true;

  static async start(): Promise<Watched> {
    const redis = await OwnRedis.start();
    const world = await makeWorld({ workers: 0, producer: true, redisUrl: redis.url, env: configured() });
    const watched = new Watched(redis, world);
    await Promise.all([
      watched.startWorker('east'),
      watched.startWorker('west'),
      watched.startWorker('quarantine', { WORKER_QUEUES: 'quarantine' }),
    ]);
    return watched;
  }

  private constructor(redis: OwnRedis, world: World) {
    this.redis = redis;
    this.world = world;
  }

  async startWorker(instance: string, env: Record<string, string> = {}): Promise<void> {
    this.workers.set(instance, await this.world.addWorker(env));
  }

  async scrape(): Promise<Scrape> {
    const workers = [...this.workers].map(([instance, { healthUrl: url }]) => ({ job: 'worker', instance, url }));
    const producers = this.producer ? [{ job: 'producer', instance: 'one', url: this.world.url }] : [];
    return await scrape([...producers, ...workers]);
  }

  /** Scrapes until the metrics say so: what a producer says of queues is up to a second old. */
  async scrapeWhen(what: string, says: (scraped: Scrape) => boolean): Promise<Scrape> {
    const look = async () => {
      const scraped = await this.scrape();
      return says(scraped) ? scraped : undefined;
    };
    return await until(what, look, 60_000);
  }

  /** Runs to the end, whatever it is. */
  async run(agent: string, steps: readonly PlannedStep[] = [{ text: 'Yes.' }], more = {}): Promise<void> {
    const run = await this.world.submit(agent, steps, more);
    await until('the run has ended', async () => (await this.world.mill.get(run.runId)).endedAt);
  }

  /** Runs that take every slot of the common workers until their gate opens. */
  async fillSlots(gate: string): Promise<RunHandle[]> {
    const done = this.world.fleet.executions.length;
    const steps = (id: string) => [{ calls: [{ name: 'put', args: { id, gate } }] }, { text: 'Done.' }];
    const runs = await Promise.all([0, 1, 2, 3].map((n) => this.world.submit('hands', steps(`${gate}${n}`))));
    await until('all slots are taken', () => this.world.fleet.executions.length === done + runs.length);
    return runs;
  }

  async queue(name: string): Promise<Queue> {
    const connection = await testRedis('work', this.redis.url);
    const queue = new Queue(name, { connection, prefix: this.world.fleet.prefix });
    // Redis goes away in one of the incidents.
    queue.on('error', () => {});
    return queue;
  }
}

interface Happened {
  readonly before: Scrape;
  readonly after: Scrape;
  readonly recurs?: Recurrence;
  /** How long after it Prometheus is asked. Default 1: at the first evaluation. */
  readonly minutesAfter?: number;
}

const unfinished = [
  { calls: [{ name: 'put', args: { id: 'again' } }] },
  { calls: [{ name: 'put', args: { id: 'more' } }] },
];
const waiting = (queue: string) => `queue="${queue}",state="waiting"`;

/** What happens to the fleet, in this order, and the alerts that fire then: these and no others. */
const incidents: readonly (readonly [
  what: string,
  firing: readonly string[],
  happens: (watched: Watched) => Promise<Happened>,
])[] = [
  [
    'work is done',
    [],
    async (watched) => {
      const before = await watched.scrape();
      await watched.run('steady');
      await watched.run('hands', [{ calls: [{ name: 'put', args: { id: 'calm' } }] }, { text: 'Done.' }]);
      return { before, after: await watched.scrape(), recurs: 'every minute', minutesAfter: 45 };
    },
  ],
  [
    'a worker is killed while a call is under way that must not be made twice',
    ['MillraceToolOutcomeUnknown'],
    async (watched) => {
      const { world, workers } = watched;
      const before = await watched.scrape();
      const call = { calls: [{ name: 'charge', args: { id: 'cut', gate: 'cut' } }] };
      const run = await world.submit('hands', [call, { text: 'So be it.' }]);
      await world.toolWorks(run);
      const worker = await world.workerOf(run);
      await worker.kill();
      const after = await watched.scrapeWhen(
        'the unknown outcome is counted',
        (now) => total(now, 'millrace_tool_outcome_unknown_total') > 0,
      );
      await run.result();
      const [name] = [...workers].find(([, { pid }]) => pid === worker.pid) ?? [];
      await watched.startWorker(name as string);
      return { before, after };
    },
  ],
  [
    'more runs wait than the workers take, and the job of one is gone',
    ['MillraceBacklog', 'MillraceRunsRequeued'],
    async (watched) => {
      const before = await watched.scrape();
      const busy = await watched.fillSlots('backlog');
      const waiters = await Promise.all(
        Array.from({ length: 10 }, () => watched.world.submit('steady', [{ text: 'At last.' }])),
      );
      const queue = await watched.queue('runs');
      await until('the runs wait', async () => (await queue.getWaitingCount()) === waiters.length);
      const lost = (await queue.getJobs(['waiting'])).find((job) => job.data.runId === waiters[4]?.runId);
      await lost?.remove();
      const after = await watched.scrapeWhen(
        'the lost run is requeued',
        (now) =>
          total(now, 'millrace_runs_requeued_total') > 0 && total(now, 'millrace_queue_jobs', waiting('runs')) === 10,
      );
      watched.world.fleet.openGate('backlog');
      await Promise.all([...busy, ...waiters].map((run) => run.result()));
      // The gauge shows the last count of the queue: the next incident starts with none that wait.
      await watched.scrapeWhen('nothing waits', (now) => total(now, 'millrace_queue_jobs', waiting('runs')) === 0);
      return { before, after, minutesAfter: 12 };
    },
  ],
  [
    'runs fail',
    ['MillraceRunsFail'],
    async (watched) => {
      const before = await watched.scrape();
      await watched.run('hands', unfinished, { limits: { maxSteps: 1 } });
      for (let n = 0; n < 4; n++) await watched.run('steady');
      return { before, after: await watched.scrape(), recurs: 'every minute', minutesAfter: 15 };
    },
  ],
  [
    'a call after an untrusted text is stopped',
    ['MillraceDataFlowBlocked'],
    async (watched) => {
      const before = await watched.scrape();
      const look = { calls: [{ name: 'look', args: { id: 'page' } }] };
      await watched.run('guarded', [look, { calls: [{ name: 'put', args: { id: 'out' } }] }, { text: 'Done.' }]);
      return { before, after: await watched.scrape() };
    },
  ],
  [
    'model calls cost more than they should',
    ['MillraceCost'],
    async (watched) => {
      const before = await watched.scrape();
      // 12 dollars each.
      for (let n = 0; n < 5; n++) await watched.run('dear');
      return { before, after: await watched.scrape() };
    },
  ],
  [
    'the price of a model is not known',
    ['MillracePriceUnknown'],
    async (watched) => {
      const before = await watched.scrape();
      await watched.run('unpriced');
      return { before, after: await watched.scrape() };
    },
  ],
  [
    'a run waits for money',
    ['MillraceRunsWaitForMoney'],
    async (watched) => {
      const before = await watched.scrape();
      const run = await watched.world.submit('steady', [{ text: 'Dear.' }], {
        budget: { maxCostMicrocents: 1, onExceed: 'pause_for_approval' },
      });
      const after = await watched.scrapeWhen('it waits', (now) => total(now, 'millrace_budget_paused_total') > 0);
      await watched.world.mill.cancel(run.runId);
      return { before, after };
    },
  ],
  [
    'a provider refuses calls again and again',
    ['MillraceRefusedByProvider'],
    async (watched) => {
      const before = await watched.scrape();
      const refused = { kind: 'status', status: 429, retryAfterS: 1 } as const;
      for (let n = 0; n < 6; n++) await watched.run('refused', [{ text: 'No.', faults: [refused] }]);
      return { before, after: await watched.scrape() };
    },
  ],
  [
    'a model is down',
    ['MillraceBreakerOpen', 'MillraceModelFails', 'MillraceRunsFail'],
    async (watched) => {
      const before = await watched.scrape();
      const down = { kind: 'status', status: 503 } as const;
      for (let n = 0; n < 5; n++) await watched.run('failing', [{ text: 'No.', faults: [down] }]);
      const after = await watched.scrapeWhen('its breaker is open', (now) =>
        [...now].some(([series, value]) => series.startsWith('millrace_breaker_state{') && value === '2'),
      );
      return { before, after, recurs: 'every minute', minutesAfter: 15 };
    },
  ],
  [
    'Redis is gone',
    ['MillraceRedisDown'],
    async (watched) => {
      await watched.scrapeWhen('the breaker has closed', (now) =>
        [...now].every(([series, value]) => !series.startsWith('millrace_breaker_state{') || value !== '2'),
      );
      const before = await watched.scrape();
      await watched.redis.kill();
      const after = await watched.scrapeWhen('all miss Redis', (now) => total(now, 'millrace_redis_up') === 0);
      await watched.redis.start();
      await watched.world.reachable();
      return { before, after, minutesAfter: 2 };
    },
  ],
  [
    'a run brings workers down',
    ['MillraceQuarantine'],
    async (watched) => {
      const before = await watched.scrapeWhen('Redis is back', (now) => total(now, 'millrace_redis_up') === 4);
      // Nothing takes from the queue: a paused one gives no jobs.
      const queue = await watched.queue('quarantine');
      await queue.pause();
      await queue.add('agent.turn', {});
      const after = await watched.scrapeWhen(
        'it is in quarantine',
        (now) => total(now, 'millrace_queue_jobs', 'queue="quarantine"') > 0,
      );
      await queue.drain();
      await queue.resume();
      return { before, after, minutesAfter: 6 };
    },
  ],
  [
    'all workers but that of the quarantine are gone, and a run is accepted',
    ['MillraceNoWorkers', 'MillraceQueueUnserved'],
    async (watched) => {
      const before = await watched.scrapeWhen(
        'the quarantine is empty',
        (now) => total(now, 'millrace_queue_jobs', 'queue="quarantine"') === 0,
      );
      for (const name of ['east', 'west']) {
        await watched.workers.get(name)?.kill();
        watched.workers.delete(name);
      }
      await watched.world.submit('steady', [{ text: 'Is a worker there?' }]);
      const after = await watched.scrapeWhen(
        'it waits, and the heartbeats of its workers have run out',
        (now) =>
          total(now, 'millrace_queue_jobs', waiting('runs')) > 0 &&
          total(now, 'millrace_queue_workers', 'queue="runs"') === 0,
      );
      return { before, after, minutesAfter: 6 };
    },
  ],
  [
    'the producer is gone',
    ['MillraceNoProducers'],
    async (watched) => {
      await watched.startWorker('east');
      await watched.scrapeWhen('nothing waits', (now) => total(now, 'millrace_queue_jobs', waiting('runs')) === 0);
      const before = await watched.scrape();
      watched.producer = false;
      return { before, after: await watched.scrape(), minutesAfter: 2 };
    },
  ],
];

test.skipIf(withoutPromtool)(
  'each documented alert fires when what it is for happens to real processes, and is silent otherwise',
  { timeout: 300_000 },
  async () => {
    expect(checkRules(rules)).toMatchObject({ status: 0 });
    const watched = await Watched.start();
    for (const [what, firing, happens] of incidents) {
      const { before, after, recurs = 'once', minutesAfter = 1 } = await happens(watched);
      const played = playAlerts(rules, { before, after, recurs }, { firing, minutesAfter });
      expect(played, what).toBe('');
    }
    expect(new Set(incidents.flatMap(([, firing]) => firing))).toEqual(new Set(alerts));
  },
);
