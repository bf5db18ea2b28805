import type { Millrace } from '../../src/producer/index.ts';
import type { BatchRequestInput, BatchStatus, BatchView } from '../../src/producer/index.ts';
import { until } from './redis.ts';

type Files = Pick<Millrace, 'files' | 'batches'>;

/** Uploads lines and makes a batch of them. */
export async function submitBatch(
  { files, batches }: Files,
  lines: readonly unknown[] | string,
  { filename = 'in.jsonl', ...more }: Partial<BatchRequestInput> & { readonly filename?: string } = {},
): Promise<BatchView> {
  const content = typeof lines === 'string' ? lines : lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const { id } = await files.upload(Buffer.from(content), { filename, purpose: 'batch' });
  const request: Partial<BatchRequestInput> = { endpoint: '/v1/runs', input_file_id: id, ...more };
  return await batches.create(request as BatchRequestInput);
}

/** Resolves once the batch has one of these statuses; throws with what it is instead. */
export async function batchIs(
  { batches }: Pick<Millrace, 'batches'>,
  id: string,
  statuses: readonly BatchStatus[],
  timeoutMs?: number,
): Promise<BatchView> {
  let last: BatchView | undefined;
  const probe = async () => {
    last = await batches.get(id);
    return statuses.includes(last.status) ? last : undefined;
  };
  return await until(`batch ${id} is ${statuses.join(' or ')}`, probe, timeoutMs).catch((error: unknown) => {
    throw new Error(`${String(error)}; it is ${JSON.stringify(last)}`);
  });
}

/** The text of a file. */
export async function fileText({ files }: Pick<Millrace, 'files'>, id: string): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const bytes of files.content(id)) parts.push(bytes);
  return Buffer.concat(parts).toString('utf8');
}

/** Its lines, parsed. None of no file. */
export async function fileLines(
  mill: Pick<Millrace, 'files'>,
  id: string | undefined,
): Promise<readonly Record<string, unknown>[]> {
  if (id === undefined) return [];
  const lines = (await fileText(mill, id)).split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}
