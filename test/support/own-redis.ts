import { freePort, root } from './scratch-redis.ts';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { startDevRedis, type DevRedis } from '../../src/producer/cli/stack/dev-redis.ts';

/**
 * A Redis with AOF that belongs to one test and may be killed and started again on the same port and data. It never syncs: while
 * a sync is slow, Redis holds writes back that it has acknowledged already, and a kill would lose them.
 */
export class OwnRedis {
  readonly dir = mkdtempSync(join(tmpdir(), 'millrace-redis-'));
  #server: DevRedis | undefined;
  #port: number | undefined;
  readonly #password: string | undefined;

  private constructor(password?: string) {
    this.#password = password;
  }

  /** A running server, ended with the test. */
  static async start({ password }: { readonly password?: string } = {}): Promise<OwnRedis> {
    const redis = new OwnRedis(password);
    await redis.start();
    onTestFinished(() => redis.#dispose());
    return redis;
  }

  get url(): string {
    const login = this.#password === undefined ? '' : `:${encodeURIComponent(this.#password)}@`;
    return `redis://${login}127.0.0.1:${this.#port}`;
  }

  get pid(): number {
    return this.#server?.pid as number;
  }

  async start(): Promise<void> {
    this.#port ??= await freePort();
    this.#server = await startDevRedis({
      dir: this.dir,
      env: process.env,
      root,
      port: this.#port,
      extraArgs: ['--appendfsync', 'no', ...(this.#password === undefined ? [] : ['--requirepass', this.#password])],
    });
  }

  /** `kill -9`: what is not in the append-only file by then is lost. */
  async kill(): Promise<void> {
    await this.#server?.stop('SIGKILL');
  }

  /** Everything on disk, as text. */
  get files(): string {
    return readdirSync(this.dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
      .join('\n');
  }

  async #dispose(): Promise<void> {
    await this.#server?.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }
}
