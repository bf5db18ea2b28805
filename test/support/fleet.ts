import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';
import { Millrace } from '../../src/producer/index.ts';
import { Child } from './child.ts';
import { testPrefix } from './redis.ts';
import { executions, type Execution } from './effect-recorder.ts';

const root = join(import.meta.dirname, '../..');

/** How long a worker's lease lasts in these tests, and how often lost ones are looked for. Recovery takes their sum. */
export const lockMs = 3_000;
export const stalledMs = 500;

export interface FleetOptions {
  /** For all processes, over the defaults below. */
  readonly env?: Record<string, string>;
  /** A Redis of its own, to be killed or filled; absent: the one that all tests share, under a prefix of its own. */
  readonly redisUrl?: string;
  /** Of all keys; absent: one that no other test uses. */
  readonly prefix?: string;
}

/** A worker process that takes jobs. */
export interface WorkerChild extends Child {
  readonly healthUrl: string;
}

/** Real workers and producers around one Redis prefix, and a client. Everything ends with {@link dispose}. */
export class Fleet {
  readonly redisUrl: string;
  readonly prefix: string;
  /** Holds the file of the effect recorder and the gates of the fixture tools. */
  readonly folder = mkdtempSync(join(tmpdir(), 'millrace-fleet-'));
  readonly mill: Millrace;
  readonly #env: Record<string, string>;
  readonly #children: Child[] = [];
  readonly #clients: Millrace[] = [];

  constructor({ env = {}, redisUrl = inject('redisUrl'), prefix = testPrefix() }: FleetOptions = {}) {
    this.prefix = prefix;
    this.redisUrl = redisUrl;
    this.#env = {
      NODE_ENV: 'test',
      REDIS_URL: redisUrl,
      MILLRACE_PREFIX: this.prefix,
      MILLRACE_AGENTS: join(root, 'test/fixtures/agents'),
      EFFECTS_DIR: this.folder,
      OPENAI_API_KEY: 'sk-not-a-real-key',
      PORT: '0',
      WORKER_PORT: '0',
      LOCK_DURATION_MS: String(lockMs),
      STALLED_INTERVAL_MS: String(stalledMs),
      EVENT_LOG_TTL_S: '600',
      LOG_LEVEL: 'debug',
      ...env,
    };
    this.mill = this.client();
  }

  /** A client of this fleet's prefix with connections of its own. */
  client(tenant = 'default', redis = this.redisUrl): Millrace {
    const client = new Millrace({ redis, prefix: this.prefix, tenant, eventLogTtlS: 600, modelAllowlist: ['*'] });
    this.#clients.push(client);
    return client;
  }

  async startWorker(env: Record<string, string> = {}): Promise<WorkerChild> {
    const child = await this.#start('worker', 'src/worker/main.ts', env);
    return Object.assign(child.child, { healthUrl: `http://127.0.0.1:${String(child.ready['healthPort'])}` });
  }

  /** Answers the base URL of a new producer. */
  async startProducer(env: Record<string, string> = {}): Promise<{ readonly child: Child; readonly url: string }> {
    const { child, ready } = await this.#start('producer', 'src/producer/main.ts', env);
    return { child, url: `http://127.0.0.1:${String(ready['port'])}` };
  }

  /** Starts an entry file with this fleet's settings and does not wait for it. */
  spawn(name: string, entry: string, env: Record<string, string> = {}, args: readonly string[] = []): Child {
    const child = Child.spawn(name, join(root, entry), { ...this.#env, ...env }, args);
    this.#children.push(child);
    return child;
  }

  /** What the fixture tools have done. */
  get executions(): Execution[] {
    return executions(this.folder);
  }

  /** Lets fixture tools that wait at this gate go on. */
  openGate(name: string): void {
    writeFileSync(join(this.folder, name), '');
  }

  /** The end of every process's output, for a test that failed. */
  get report(): string {
    return this.#children.map((child) => `--- ${child.name} ${child.pid}\n${child.output.slice(-6_000)}`).join('\n');
  }

  /** All output of all processes so far, as far as it was kept. */
  get output(): string {
    return this.#children.map((child) => child.output).join('\n');
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
    await Promise.all(this.#children.map((child) => child[Symbol.asyncDispose]()));
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #start(name: string, entry: string, env: Record<string, string>) {
    const started = await Child.start(name, join(root, entry), { ...this.#env, ...env });
    this.#children.push(started.child);
    return started;
  }
}
