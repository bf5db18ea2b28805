import { fork, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Millrace, type RunEvent, type RunView } from '../../src/producer/index.ts';
import { RunError } from '../../src/shared/base/errors.ts';
import type { FlowMode } from '../../src/shared/contract/flow.ts';
import { isTerminalStatus } from '../../src/shared/contract/run.ts';
import { entryOf, type Played, type Variant } from './cast.ts';
import type { Playable } from './scenario.ts';
import { ScenarioServers } from './servers.ts';

export interface PlayOptions {
  readonly redisUrl: string;
  /** The folder that the scenarios are from: each worker reads it. */
  readonly corpus: string;
  readonly scenarios: readonly Playable[];
  readonly mode: FlowMode;
  readonly variant: Variant;
  /** Worker processes. Default 2. */
  readonly workers?: number;
}

/** What was seen of all scenarios. */
export interface Seen {
  /** What tools did, as they wrote it down themselves. */
  readonly played: readonly Played[];
  /** Of every run, children too. */
  readonly runs: readonly { readonly view: RunView; readonly events: readonly RunEvent[] }[];
  readonly elapsedMs: number;
}

/** Who waits longer than this for runs that do not move gives up. */
const stuckMs = 120_000;
const pollMs = 100;

/** Plays scenarios, all at once, with real workers, and resolves when every run has ended. */
export async function play(options: PlayOptions): Promise<Seen> {
  const startedAt = performance.now();
  await using stage = await Stage.set(options);
  await stage.startWorkers();
  await stage.enqueue();
  if (options.variant === 'resume' || options.variant === 'kill') {
    await stage.until('every run is at its checkpoint or has ended', (runs) => stage.areStopped(runs));
    await stage.replaceWorkers(options.variant);
  }
  await stage.until('every run has ended', (runs) => runs.every(({ status }) => isTerminalStatus(status)), true);
  return { ...(await stage.seen()), elapsedMs: performance.now() - startedAt };
}

/** Everything around the runs of one performance. */
class Stage implements AsyncDisposable {
  readonly #options: PlayOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'millrace-guards-'));
  readonly #prefix = `g${randomBytes(5).toString('hex')}`;
  readonly #mill: Millrace;
  readonly #onServers: Played[] = [];
  readonly #decided = new Set<string>();
  /** By thread: the messages that have not been sent. */
  readonly #turns: Map<string, { readonly agent: string; readonly left: string[] }>;
  #servers: ScenarioServers | undefined;
  #workers: ChildProcess[] = [];
  #output = '';

  private constructor(options: PlayOptions) {
    this.#options = options;
    this.#mill = new Millrace({ redis: options.redisUrl, prefix: this.#prefix, modelAllowlist: ['*'] });
    this.#turns = new Map();
  }

  static async set(options: PlayOptions): Promise<Stage> {
    const stage = new Stage(options);
    stage.#servers = await ScenarioServers.start(options.scenarios, (played) => stage.#onServers.push(played));
    return stage;
  }

  async startWorkers(): Promise<void> {
    const { workers = 2 } = this.#options;
    this.#workers = await Promise.all(Array.from({ length: workers }, () => this.#startWorker()));
  }

  async enqueue(): Promise<void> {
    const { scenarios, variant } = this.#options;
    const requests = scenarios.map((scenario) => {
      const thread = scenario.turns.length > 0 ? { thread: scenario.id } : {};
      return { agent: entryOf(scenario, variant), input: scenario.user, ...thread };
    });
    for (let at = 0; at < requests.length; at += 100) {
      const answers = await this.#mill.enqueueMany(requests.slice(at, at + 100));
      const refused = answers.find((answer) => 'error' in answer);
      if (refused) throw new Error(`a run was refused: ${JSON.stringify(refused)}`);
    }
    for (const scenario of scenarios) {
      const left = scenario.turns.map(({ user }) => user);
      if (left.length > 0) this.#turns.set(scenario.id, { left, agent: entryOf(scenario, variant) });
    }
  }

  /** No run moves: each one waits for people or children, is at its checkpoint, or has ended. */
  areStopped(runs: readonly RunView[]): boolean {
    const arrived = new Set(this.#lines('arrived'));
    return runs.every(
      ({ runId, status }) =>
        isTerminalStatus(status) || status === 'suspended' || (status === 'running' && arrived.has(runId)),
    );
  }

  /** Lets the runs go on elsewhere: those workers are gone. */
  async replaceWorkers(variant: 'resume' | 'kill'): Promise<void> {
    const gone = this.#workers.map((worker) => once(worker, 'exit'));
    for (const worker of this.#workers) {
      if (variant === 'kill') worker.kill('SIGKILL');
      else worker.send('stop');
    }
    await Promise.all(gone);
    writeFileSync(join(this.#folder, 'gate'), '');
    await this.startWorkers();
  }

  /**
   * Resolves once all runs fit. Begins the next turn of a conversation when one has ended. With `decides` it is the person who
   * grants what waits, unless the data-flow policy asks: that is denied. Throws when nothing moves any more.
   */
  async until(what: string, fit: (runs: readonly RunView[]) => boolean, decides = false): Promise<void> {
    let [last, movedAt] = ['', performance.now()];
    for (;;) {
      const runs = await this.#runs().catch(orNothing);
      if (!runs && performance.now() - movedAt <= stuckMs) continue;
      if (!runs) throw new Error(`waited for: ${what}; Redis does not answer\n${this.#output}`);
      const moved = await this.#nextTurns(runs);
      if (!moved && fit(runs)) return;
      if (decides) await this.#decide(runs);
      const now = runs.map(({ runId, status, lastSequence }) => `${runId} ${status} ${lastSequence}`).join();
      if (now !== last) [last, movedAt] = [now, performance.now()];
      if (performance.now() - movedAt > stuckMs) {
        const stuck = runs.filter(({ status }) => !isTerminalStatus(status)).map((run) => `${run.agent} ${run.status}`);
        throw new Error(`waited for: ${what}; not yet: ${stuck.join(', ')}\n${this.#output}`);
      }
      const dead = this.#workers.find(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null);
      if (dead) throw new Error(`a worker ended by itself:\n${this.#output}`);
      await pause(pollMs);
    }
  }

  async seen(): Promise<Omit<Seen, 'elapsedMs'>> {
    const views = await this.#runs();
    const runs = await inTwenties(views, async (view) => {
      const events: RunEvent[] = [];
      if (this.#options.mode !== 'off') for await (const event of this.#mill.events(view.runId)) events.push(event);
      return { view, events };
    });
    const inWorkers = this.#lines('calls').map((line) => JSON.parse(line) as Played);
    return { played: [...inWorkers, ...this.#onServers], runs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.#workers) worker.kill('SIGKILL');
    await this.#mill.close();
    await this.#servers?.[Symbol.asyncDispose]();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #startWorker(): Promise<ChildProcess> {
    const { redisUrl, corpus, scenarios, mode, variant } = this.#options;
    const scripted = scenarios.filter(({ agents }) => agents.some(({ invocation }) => invocation === 'code-mode'));
    const scripts = Math.min(Math.max(scripted.length, 2), 64);
    const worker = fork(fileURLToPath(new URL('./worker.ts', import.meta.url)), [], {
      execArgv: [],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: {
        PATH: process.env['PATH'],
        NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
        REDIS_URL: redisUrl,
        MILLRACE_PREFIX: this.#prefix,
        GUARDS_STAGE: this.#folder,
        GUARDS_CORPUS: corpus,
        GUARDS_ONLY: scenarios.map(({ id }) => id).join(','),
        GUARDS_MODE: mode,
        GUARDS_VARIANT: variant,
        GUARDS_SERVERS: this.#servers?.url,
        GUARDS_CONCURRENCY: String(2 * scenarios.length + 10),
        // A killed worker is noticed after this; a busy one must not be taken for dead.
        LOCK_DURATION_MS: variant === 'kill' ? '8000' : '30000',
        STALLED_INTERVAL_MS: '1000',
        // Every script may wait at its checkpoint.
        CODE_MODE_PROCESSES: variant === 'kill' ? String(scripts) : '2',
      },
    });
    for (const stream of [worker.stdout, worker.stderr])
      stream?.on('data', (chunk: Buffer) => (this.#output = (this.#output + chunk.toString()).slice(-20_000)));
    const [message] = (await Promise.race([once(worker, 'message'), once(worker, 'exit').then(() => [])])) as unknown[];
    if (message !== 'ready') throw new Error(`a worker did not start:\n${this.#output}`);
    return worker;
  }

  #lines(name: string): string[] {
    const file = join(this.#folder, name);
    return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  }

  async #runs(): Promise<readonly RunView[]> {
    const all: RunView[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.#mill.list({ limit: 100, ...(cursor !== undefined && { cursor }) });
      all.push(...page.runs);
      ({ cursor } = page);
    } while (cursor !== undefined);
    return all;
  }

  async #nextTurns(runs: readonly RunView[]): Promise<boolean> {
    let moved = false;
    for (const [thread, turn] of this.#turns) {
      const inThread = runs.filter((run) => run.thread === thread);
      if (inThread.length === 0 || !inThread.every(({ status }) => isTerminalStatus(status))) continue;
      const input = turn.left.shift();
      if (input === undefined) this.#turns.delete(thread);
      else {
        await this.#mill.enqueue({ agent: turn.agent, input, thread });
        moved = true;
      }
    }
    return moved;
  }

  async #decide(runs: readonly RunView[]): Promise<void> {
    for (const { runId, pending } of runs) {
      const open = pending.flatMap(({ kind, toolCallId, flow }) =>
        kind === 'approval' && toolCallId !== undefined && !this.#decided.has(`${runId} ${toolCallId}`)
          ? [{ toolCallId, granted: flow === undefined }]
          : [],
      );
      if (open.length === 0) continue;
      for (const { toolCallId } of open) this.#decided.add(`${runId} ${toolCallId}`);
      await this.#mill.decide(runId, { approvals: open }, { by: 'the person' });
    }
  }
}

/** A Redis that is too busy to answer in time is asked again. */
function orNothing(error: unknown): undefined {
  if (!(error instanceof RunError && error.retryable)) throw error;
}

async function inTwenties<T, R>(values: readonly T[], work: (value: T) => Promise<R>): Promise<R[]> {
  const all: R[] = [];
  for (let at = 0; at < values.length; at += 20) all.push(...(await Promise.all(values.slice(at, at + 20).map(work))));
  return all;
}
