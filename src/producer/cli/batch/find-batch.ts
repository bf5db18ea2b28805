import { basename } from 'node:path';
import { asRunError, RunError } from '../../../shared/base/errors.ts';
import { sha256 } from '../../../shared/base/ids.ts';
import { canonicalJson } from '../../../shared/base/json.ts';
import type { BatchRequestInput, BatchView } from '../../../shared/contract/batch.ts';
import type { MillraceClient } from '../../client/facade.ts';
import { readFrom, type OwnFile } from './own-file.ts';
import type { OutputNote } from './output.ts';

/** What a batch is asked for with, beside its file. */
export type BatchAsked = Omit<
  Extract<BatchRequestInput, { endpoint: '/v1/runs' }>,
  'input_file_id' | 'endpoint' | 'metadata' | 'name'
> & {
  readonly name: string;
};

type Client = Pick<MillraceClient, 'batches' | 'files'>;

/** The label under which a batch of a command carries what it is a batch of. */
const label = 'command';
/** The newest batches among which one is looked for. */
const pages = 10;
const pageSize = 100;

/** Digest of what makes the lines of a batch: the file, the name and the options; not of how much it may cost, or how fast it goes. */
export function digestOf({ sha256: file }: Pick<OwnFile, 'sha256'>, asked: BatchAsked): string {
  const { name, agent, inputTemplate, overrides, deadlineMs, priority, queue } = asked;
  return sha256(canonicalJson({ file, name, agent, inputTemplate, overrides, deadlineMs, priority, queue })).slice(
    0,
    40,
  );
}

/** The batch that the same command has begun, here or on another machine. One that was cancelled, or broke, is none. */
export async function findBatch(
  { batches }: Pick<Client, 'batches'>,
  digest: string,
  beside: OutputNote | undefined,
): Promise<BatchView | undefined> {
  if (beside?.digest === digest) {
    const noted = await batches.get(beside.batch).catch((error: unknown) => {
      if (asRunError(error).code !== 'not_found') throw error;
    });
    if (noted && goesOn(noted)) return noted;
  }
  for await (const batch of newest({ batches })) if (batch.metadata?.[label] === digest && goesOn(batch)) return batch;
  return undefined;
}

function goesOn({ status }: BatchView): boolean {
  return status !== 'cancelled' && status !== 'cancelling' && status !== 'failed' && status !== 'expired';
}

/** The batches of the tenant, newest first; not all of many. */
export async function* newest({ batches }: Pick<Client, 'batches'>): AsyncGenerator<BatchView> {
  let after: string | undefined;
  for (let page = 0; page < pages; page++) {
    const { data, has_more } = await batches.list({ limit: pageSize, after });
    yield* data;
    after = data.at(-1)?.id;
    if (!has_more || after === undefined) return;
  }
}

/** Uploads the file, and begins its batch. */
export async function beginBatch(
  { batches, files }: Client,
  { file, request }: { readonly file: OwnFile; readonly request: BatchAsked },
  onProgress: (bytes: number) => void,
  signal: AbortSignal,
): Promise<BatchView> {
  async function* counted() {
    let bytes = 0;
    for await (const chunk of readFrom(file.path)) {
      signal.throwIfAborted();
      onProgress((bytes += chunk.length));
      yield chunk;
    }
  }
  const { id, bytes } = await files.upload(counted(), { filename: basename(file.path), purpose: 'batch' });
  if (bytes !== file.bytes) {
    await files.remove(id).catch(() => undefined);
    throw new RunError('validation', `${file.path} changed while it was read: give the command again`);
  }
  signal.throwIfAborted();
  const metadata = { [label]: digestOf(file, request) };
  return await batches.create({ ...request, endpoint: '/v1/runs', input_file_id: id, metadata });
}
