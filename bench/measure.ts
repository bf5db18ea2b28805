import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';
import type { FromSystem, ToSystem } from './workload.ts';

/** What Redis has done so far: commands inside scripts are counted too. CPU in microseconds. */
export interface RedisCounters {
  readonly commands: number;
  readonly bytesIn: number;
  readonly cpuMicros: number;
  readonly usedMemory: number;
}

export async function redisCounters(redis: Redis): Promise<RedisCounters> {
  const info = await redis.info();
  const field = (name: string) => Number(new RegExp(`^${name}:([0-9.]+)`, 'm').exec(info)?.[1] ?? 0);
  return {
    commands: field('total_commands_processed'),
    bytesIn: field('total_net_input_bytes'),
    cpuMicros: (field('used_cpu_sys') + field('used_cpu_user')) * 1e6,
    usedMemory: field('used_memory'),
  };
}

/** One system under measurement: a process of its own. */
export class SystemProcess {
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(file: string, env: Record<string, string>): Promise<SystemProcess> {
    const child = fork(fileURLToPath(new URL(file, import.meta.url)), [], { env: { ...process.env, ...env } });
    const system = new SystemProcess(child);
    await system.#next('ready');
    return system;
  }

  async cpu(): Promise<{ micros: number; rssBytes: number }> {
    this.#child.send({ type: 'cpu' } satisfies ToSystem);
    return await this.#next('cpu');
  }

  async run(runs: number, concurrency: number): Promise<{ firstTokenMs: number[]; elapsedMs: number }> {
    this.#child.send({ type: 'run', runs, concurrency } satisfies ToSystem);
    return await this.#next('done');
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await ended;
  }

  async #next<T extends FromSystem['type']>(type: T): Promise<Extract<FromSystem, { type: T }>> {
    const { promise, resolve, reject } = Promise.withResolvers<Extract<FromSystem, { type: T }>>();
    const onMessage = (message: FromSystem) => {
      if (message.type === type) resolve(message as Extract<FromSystem, { type: T }>);
    };
    const onExit = (code: number | null) =>
      reject(new Error(`a system's process ended with ${code} before it sent ${type}`));
    const timer = setTimeout(() => reject(new Error(`no ${type} within 300 s`)), 300_000);
    this.#child.on('message', onMessage).once('exit', onExit);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#child.off('message', onMessage).off('exit', onExit);
    }
  }
}

export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? Number.NaN;
}

/** Prints rows in columns: the first so many with their text on the left, the others on the right. */
export function printTable(rows: readonly (readonly string[])[], leftColumns = 1): void {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  for (const row of rows) {
    const cells = row.map((cell, at) =>
      at < leftColumns ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0),
    );
    console.log(cells.join('  '));
  }
}
