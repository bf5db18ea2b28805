import type * as sdkModule from '@aws-sdk/client-s3';
import type { S3Client } from '@aws-sdk/client-s3';
import type { ArtifactStore } from '../../contract/artifacts.ts';
import { RunError } from '../../base/errors.ts';
import { newNonce } from '../../base/ids.ts';

type Sdk = typeof sdkModule;

export type S3Store = Extract<ArtifactStore, { kind: 's3' }>;

const connectionTimeoutMs = 5_000;
const requestTimeoutMs = 30_000;
const maxAttempts = 3;
const deletesAtOnce = 8;

/**
 * The bucket of `ARTIFACT_STORE`. Credentials are the SDK's own affair. Throws `invalid_config` when the package is missing, or
 * the bucket cannot be written to.
 */
export async function openBucket(
  store: S3Store,
  load: () => Promise<Sdk> = () => import('@aws-sdk/client-s3'),
): Promise<Bucket> {
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
  return bucket;
}

/** A part of an object. */
export interface ObjectRange {
  readonly bytes: Buffer;
  readonly metadata: Record<string, string> | undefined;
  readonly totalBytes: number;
}

export interface Listed {
  readonly key: string;
  readonly bytes: number;
  readonly atMs: number;
}

/** Objects under the prefix; their keys are without it. */
export class Bucket implements Disposable {
  readonly #sdk: Sdk;
  readonly #client: S3Client;
  readonly #name: string;
  readonly #prefix: string;

  constructor(sdk: Sdk, client: S3Client, store: S3Store) {
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
    const content = { Body: body, ContentLength: body.length, ContentType: 'application/octet-stream' };
    await this.#client.send(new this.#sdk.PutObjectCommand({ ...this.#at(key), ...content, Metadata: metadata }));
  }

  /** A range of an object, with what is known of all of it. Undefined for one that is not there. */
  async read(key: string, offset: number, length: number): Promise<ObjectRange | undefined> {
    return length > 0 ? await this.#get(key, offset, length) : await this.#head(key);
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

  [Symbol.dispose](): void {
    this.#client.destroy();
  }

  async #get(key: string, offset: number, length: number): Promise<ObjectRange | undefined> {
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

  async #head(key: string): Promise<ObjectRange | undefined> {
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

/** Names what failed. Throws `queue_unavailable` for every error of the store. */
export async function guarded<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RunError) throw error;
    throw new RunError('queue_unavailable', `ARTIFACT_STORE fails (${nameOf(error)}): ${doing}`, { cause: error });
  }
}
