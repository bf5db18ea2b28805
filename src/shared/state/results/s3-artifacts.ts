import type * as sdkModule from '@aws-sdk/client-s3';
import type { S3Client } from '@aws-sdk/client-s3';
import { z } from 'zod';
import { artifactTtlS, type ArtifactStore } from '../../contract/artifacts.ts';
import { RunError } from '../../base/errors.ts';
import { newNonce, runId as runIdForm } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';
import {
  type Artifacts,
  checkNames,
  checkSize,
  keptInfo,
  runIsFull,
  type ArtifactBounds,
  type Swept,
} from './artifacts.ts';

type Sdk = typeof sdkModule;

const connectionTimeoutMs = 5_000;
const requestTimeoutMs = 30_000;
const maxAttempts = 3;
const deletesAtOnce = 8;

/** What is known about a body, as one entry of the object's metadata: their names lose capitals on the way. */
const metadata = z.object({ about: z.string() });

export interface S3ArtifactsOptions {
  readonly store: Extract<ArtifactStore, { kind: 's3' }>;
  readonly bounds: ArtifactBounds;
  /** Loads the package, which is not installed with this one. */
  readonly load?: () => Promise<Sdk>;
}

/**
 * Kept results in an S3-compatible store: `<prefix>/<runId>/spill/<name>`. Credentials are the SDK's own affair. Throws
 * `invalid_config` when the package is missing, or the bucket cannot be written to.
 */
export async function openS3Artifacts(options: S3ArtifactsOptions): Promise<Artifacts & Swept & Disposable> {
  const { store, load = () => import('@aws-sdk/client-s3') } = options;
  const sdk = await load().catch((cause: unknown) => {
    const message = 'ARTIFACT_STORE: s3:// needs a package that is not installed: npm install @aws-sdk/client-s3';
    throw new RunError('invalid_config', message, { cause });
  });
  const client = new sdk.S3Client({
    region: store.region ?? 'us-east-1',
    ...(store.endpoint !== undefined && { endpoint: store.endpoint, forcePathStyle: true }),
    maxAttempts,
    requestHandler: { connectionTimeout: connectionTimeoutMs, requestTimeout: requestTimeoutMs },
    // Checksums of the newer kinds are not understood by every compatible store.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  const bucket = new Bucket(sdk, client, store);
  try {
    await bucket.probe();
  } catch (cause) {
    client.destroy();
    const message = `ARTIFACT_STORE: the bucket ${store.bucket} cannot be written to (${nameOf(cause)})`;
    throw new RunError('invalid_config', message, { cause });
  }
  return { ...artifactsIn(bucket, options.bounds), [Symbol.dispose]: () => client.destroy() };
}

function artifactsIn(bucket: Bucket, bounds: ArtifactBounds): Artifacts & Swept {
  return {
    async put(runId, name, body, info) {
      checkNames(runId, name);
      checkSize(body, bounds);
      await guarded('write of a kept result', async () => {
        let taken = body.length;
        for await (const { key, bytes } of bucket.list(prefixOf(runId)))
          if (key !== prefixOf(runId) + name) taken += bytes;
        if (taken > bounds.maxRunBytes) throw runIsFull(bounds);
        await bucket.put(prefixOf(runId) + name, body, { about: jsonText(keptInfo.parse(info)) });
      });
    },
    async read(runId, name, offset, length) {
      checkNames(runId, name);
      const key = prefixOf(runId) + name;
      return await guarded('read of a kept result', async () => await bucket.read(key, offset, length));
    },
    async drop(runId) {
      checkNames(runId);
      await guarded('removal of kept results', async () => await bucket.removeAll(prefixOf(runId), () => true));
    },
    async sweep(nowMs) {
      await guarded('sweep of kept results', async () => {
        const beforeMs = nowMs - artifactTtlS * 1_000;
        await bucket.removeAll('', ({ key, atMs }) => atMs < beforeMs && isOurs(key));
      });
    },
  };
}

function prefixOf(runId: string): string {
  return `${runId}/spill/`;
}

/** A bucket may contain more than what we put there. */
function isOurs(key: string): boolean {
  const [run = '', folder, name, ...more] = key.split('/');
  return runIdForm.safeParse(run).success && folder === 'spill' && name !== '' && more.length === 0;
}

interface Listed {
  readonly key: string;
  readonly bytes: number;
  readonly atMs: number;
}

/** Objects under the prefix; their keys are without it. */
class Bucket {
  readonly #sdk: Sdk;
  readonly #client: S3Client;
  readonly #name: string;
  readonly #prefix: string;

  constructor(sdk: Sdk, client: S3Client, store: S3ArtifactsOptions['store']) {
    this.#sdk = sdk;
    this.#client = client;
    this.#name = store.bucket;
    this.#prefix = store.prefix === '' ? '' : `${store.prefix}/`;
  }

  async probe(): Promise<void> {
    const key = `.probe-${newNonce()}`;
    await this.put(key, Buffer.from('probe'), {});
    await this.#remove(key);
  }

  async put(key: string, body: Uint8Array, metadata: Record<string, string>): Promise<void> {
    const content = { Body: body, ContentLength: body.length, ContentType: 'text/plain; charset=utf-8' };
    await this.#client.send(new this.#sdk.PutObjectCommand({ ...this.#at(key), ...content, Metadata: metadata }));
  }

  async read(key: string, offset: number, length: number) {
    const answer = length > 0 ? await this.#get(key, offset, length) : await this.#head(key);
    if (!answer) return undefined;
    const info = keptInfo.parse(JSON.parse(metadata.parse(answer.metadata).about));
    return { bytes: answer.bytes, info: { ...info, totalBytes: answer.totalBytes } };
  }

  async *list(under: string): AsyncGenerator<Listed> {
    let token: string | undefined;
    do {
      const input = { Bucket: this.#name, Prefix: this.#prefix + under, ContinuationToken: token };
      const page = await this.#client.send(new this.#sdk.ListObjectsV2Command(input));
      for (const { Key = '', Size = 0, LastModified } of page.Contents ?? [])
        yield { key: Key.slice(this.#prefix.length), bytes: Size, atMs: LastModified?.getTime() ?? Date.now() };
      token = page.IsTruncated ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  /** One by one: deleting many in one request is what compatible stores differ in. */
  async removeAll(under: string, isMeant: (object: Listed) => boolean): Promise<void> {
    const found: string[] = [];
    for await (const object of this.list(under)) if (isMeant(object)) found.push(object.key);
    for (let at = 0; at < found.length; at += deletesAtOnce)
      await Promise.all(found.slice(at, at + deletesAtOnce).map((key) => this.#remove(key)));
  }

  async #get(key: string, offset: number, length: number) {
    const range = { Range: `bytes=${offset}-${offset + length - 1}` };
    try {
      const answer = await this.#client.send(new this.#sdk.GetObjectCommand({ ...this.#at(key), ...range }));
      const bytes = Buffer.from((await answer.Body?.transformToByteArray()) ?? []);
      const [, total] = /\/(\d+)$/.exec(answer.ContentRange ?? '') ?? [];
      if (total !== undefined) return { bytes, metadata: answer.Metadata, totalBytes: Number(total) };
      // A store that knows no ranges has sent everything.
      return { bytes: bytes.subarray(offset, offset + length), metadata: answer.Metadata, totalBytes: bytes.length };
    } catch (error) {
      // Beyond the end, where nothing is left, a range is an error.
      if (statusOf(error) === 416) return await this.#head(key);
      return notThere(error);
    }
  }

  async #head(key: string) {
    try {
      const answer = await this.#client.send(new this.#sdk.HeadObjectCommand(this.#at(key)));
      return { bytes: Buffer.alloc(0), metadata: answer.Metadata, totalBytes: answer.ContentLength ?? 0 };
    } catch (error) {
      return notThere(error);
    }
  }

  async #remove(key: string): Promise<void> {
    await this.#client.send(new this.#sdk.DeleteObjectCommand(this.#at(key)));
  }

  #at(key: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.#name, Key: this.#prefix + key };
  }
}

function notThere(error: unknown): undefined {
  if (statusOf(error) === 404) return undefined;
  throw error;
}

function statusOf(error: unknown): number | undefined {
  const { $metadata } = error as { readonly $metadata?: { readonly httpStatusCode?: number } };
  return $metadata?.httpStatusCode;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : 'unknown';
}

async function guarded<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RunError) throw error;
    throw new RunError('queue_unavailable', `ARTIFACT_STORE fails (${nameOf(error)}): ${doing}`, { cause: error });
  }
}
