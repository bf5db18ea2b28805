import { onTestFinished } from 'vitest';
import { OwnFiles } from '../../../../src/producer/client/files/own-files.ts';
import type { AdvanceOptions, BatchNews } from '../../../../src/producer/client/batches/batches.ts';
import type { Millrace } from '../../../../src/producer/client/millrace.ts';
import type { BatchRequestInput, BatchStatus, BatchView } from '../../../../src/shared/contract/batch.ts';
import type { FileStore } from '../../../../src/shared/state/files/files.ts';
import { until } from '../../../support/redis.ts';
import { clientWorld, type ClientWorld } from '../../cli/options/client.ts';

export interface BatchWorld extends ClientWorld {
  readonly files: FileStore;
  /** What happened to batches on the processes that {@link advance} has begun. */
  readonly news: BatchNews[];
  /** Begins to advance batches, as a producer does. Ends with the test. */
  advance(options?: AdvanceOptions): Promise<AsyncDisposable>;
  /** Uploads lines and makes a batch of them. */
  submit(
    lines: readonly unknown[] | string,
    more?: Partial<BatchRequestInput> & { filename?: string },
  ): Promise<BatchView>;
  /** Resolves once a batch has this status. */
  is(id: string, ...statuses: BatchStatus[]): Promise<BatchView>;
  /** The lines of a file, parsed. */
  read(fileId: string | undefined): Promise<Record<string, unknown>[]>;
  text(fileId: string): Promise<string>;
}

/** Batches in a world of their own. Short leases: a lost process is noticed soon. */
export async function batchWorld(): Promise<BatchWorld> {
  const world = await clientWorld();
  const { mill, redis, keys } = world;
  const files = new OwnFiles({ kind: 'redis' }, 1e10, { keys, reach: (work) => work(redis) }).store;
  const news: BatchNews[] = [];
  const text = async (fileId: string) => {
    const parts: Uint8Array[] = [];
    for await (const bytes of files.read(await tenantOf(mill), fileId)) parts.push(bytes);
    return Buffer.concat(parts).toString('utf8');
  };
  return {
    ...world,
    files,
    news,
    text,
    async advance(options = {}) {
      const leases = { lockDurationMs: 1_500, stalledIntervalMs: 300 };
      const advancing = await mill.batches.advance({ ...leases, onNews: (found) => void news.push(found), ...options });
      onTestFinished(() => advancing[Symbol.asyncDispose]());
      return advancing;
    },
    submit: (lines, more) => submitTo(mill, files, lines, more),
    is: (id, ...statuses) => hasStatus(mill, id, statuses),
    async read(fileId) {
      if (fileId === undefined) return [];
      const lines = (await text(fileId)).split('\n').filter(Boolean);
      return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    },
  };
}

export async function submitTo(
  mill: Millrace,
  files: FileStore,
  lines: readonly unknown[] | string,
  { filename = 'in.jsonl', ...more }: Partial<BatchRequestInput> & { filename?: string } = {},
): Promise<BatchView> {
  const content = typeof lines === 'string' ? lines : lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const body = async function* () {
    yield Buffer.from(content);
  };
  const { id } = await files.put(await tenantOf(mill), { filename, purpose: 'batch' }, body());
  const request = { endpoint: '/v1/runs', agent: 'support', input_file_id: id, ...more } as BatchRequestInput;
  return await mill.batches.create(request);
}

export async function hasStatus(mill: Millrace, id: string, statuses: readonly BatchStatus[]): Promise<BatchView> {
  let last: BatchView | undefined;
  const found = await until(`batch ${id} is ${statuses.join(' or ')}`, async () => {
    last = await mill.batches.get(id);
    return statuses.includes(last.status) ? last : undefined;
  }).catch((error: unknown) => {
    throw new Error(`${String(error)}; it is ${JSON.stringify(last)}`);
  });
  return found;
}

async function tenantOf(mill: Millrace): Promise<string> {
  return (await mill.whoami()).tenant;
}
