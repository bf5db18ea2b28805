import { afterAll, beforeAll, beforeEach, onTestFailed, onTestFinished } from 'vitest';
import type { RunHandle, RunRequestInput } from '../../src/producer/index.ts';
import type { Child } from './child.ts';
import { checkCalls, checkRun, observe, type Observed } from './check-run.ts';
import { Fleet, type FleetOptions, type WorkerChild } from './fleet.ts';
import { PlanProvider } from './plan-provider.ts';
import { planInput, type PlannedStep } from './plan.ts';
import { testRedis, until } from './redis.ts';

export interface WorldOptions extends FleetOptions {
  /** Worker processes to begin with. Default 1. */
  readonly workers?: number;
  /** Also an HTTP producer. Default false. */
  readonly producer?: boolean;
}

/** A fleet with a model server that follows plans. */
export class World {
  readonly fleet: Fleet;
  readonly provider: PlanProvider;
  readonly workers: WorkerChild[] = [];
  /** Base URL of the HTTP producer, when there is one. */
  url = '';
  #producer: Child | undefined;

  private constructor(fleet: Fleet, provider: PlanProvider) {
    this.fleet = fleet;
    this.provider = provider;
  }

  static async start({ workers = 1, producer = false, env, ...options }: WorldOptions = {}): Promise<World> {
    const provider = await PlanProvider.start();
    const fleet = new Fleet({ ...options, env: { OPENAI_BASE_URL: provider.baseUrl, ...env } });
    const world = new World(fleet, provider);
    try {
      await Promise.all([
        ...Array.from({ length: workers }, () => world.addWorker()),
        producer &&
          fleet.startProducer().then(({ child, url }) => {
            world.#producer = child;
            world.url = url;
          }),
      ]);
    } catch (error) {
      await world.dispose();
      throw error;
    }
    return world;
  }

  /** The HTTP producer. */
  get producer(): Child {
    if (!this.#producer) throw new Error('this world has no producer');
    return this.#producer;
  }

  get mill() {
    return this.fleet.mill;
  }

  async addWorker(env?: Record<string, string>): Promise<WorkerChild> {
    const worker = await this.fleet.startWorker(env);
    this.workers.push(worker);
    return worker;
  }

  /** The first worker: the only one where a test has not started more. */
  get worker(): WorkerChild {
    return this.workers[0] as WorkerChild;
  }

  /** The worker process that runs this run, once there is one. */
  async workerOf({ runId }: { readonly runId: string }): Promise<WorkerChild> {
    return await until(`a worker runs ${runId}`, async () => {
      const { worker = '' } = await this.mill.get(runId);
      return this.workers.find(({ pid }) => worker.includes(`-${pid}-`));
    });
  }

  /** Resolves once the effect recorder has seen a tool of this run. */
  async toolWorks({ runId }: { readonly runId: string }, times = 1): Promise<void> {
    const mine = () => this.fleet.executions.filter((execution) => execution.runId === runId);
    await until(`a tool of run ${runId} works`, () => mine().length >= times);
  }

  /** Enqueues a run that follows the plan. */
  async submit(agent: string, plan: readonly PlannedStep[], more: Partial<RunRequestInput> = {}): Promise<RunHandle> {
    return await this.mill.enqueue({ agent, input: planInput(...plan), ...more });
  }

  /** Waits for the end of a run, checks what holds for every run, and answers what was seen. */
  async ended({ runId }: { readonly runId: string }): Promise<Observed> {
    const observed = await observe(this.mill, runId, () => this.fleet.executions);
    checkRun(observed);
    checkCalls(observed, this.provider.callsOf(runId));
    return observed;
  }

  /** Resolves once the client has found its way back to a Redis that was away. */
  async reachable(): Promise<void> {
    await until('the client reaches Redis', () =>
      this.mill.list().then(
        () => true,
        () => false,
      ),
    );
  }

  /** Resolves once no job of this world is locked any more: every lease has run out. */
  async locksGone(): Promise<void> {
    const redis = await testRedis('work', this.fleet.redisUrl);
    await until(
      'the locks have run out',
      async () => (await redis.keys(`${this.fleet.prefix}:runs:*:lock`)).length === 0,
    );
  }

  async dispose(): Promise<void> {
    await this.provider[Symbol.asyncDispose]();
    await this.fleet.dispose();
  }
}

/** A world for one test. When the test fails, the end of every process's log is printed. */
export async function makeWorld(options?: WorldOptions): Promise<World> {
  const world = await World.start(options);
  onTestFinished(() => world.dispose());
  onTestFailed(() => void process.stderr.write(`${world.fleet.report}\n`));
  return world;
}

/**
 * One world for all tests of a file, for tests that only use what they made themselves and take no worker from a run: its
 * leases are long, so that a busy machine loses none.
 */
export function shareWorld({ env, ...options }: WorldOptions = {}): { readonly world: World } {
  let world: World | undefined;
  beforeAll(async () => {
    world = await World.start({ ...options, env: { LOCK_DURATION_MS: '15000', ...env } });
  });
  beforeEach(() => onTestFailed(() => void process.stderr.write(`${world?.fleet.report}\n`)));
  afterAll(() => world?.dispose());
  return {
    get world() {
      if (!world) throw new Error('the world begins with the first test');
      return world;
    },
  };
}
