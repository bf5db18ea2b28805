import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inLanes } from '../../src/shared/base/collections.ts';
import { s3Artifacts } from '../../src/shared/state/results/s3-artifacts.ts';
import { openBucket } from '../../src/shared/state/results/s3-bucket.ts';
import { startS3Server, withoutS3, type S3Server } from '../support/s3-server.ts';
import { artifactBounds, artifactsContract } from './artifacts.ts';

const dayMs = 86_400_000;
const run = '01KAPN3YV8Q2T5W7X9Z0A1B2C3';
const info = { toolName: 'report', trust: 'built-in', sensitivity: 'public' } as const;

let server: S3Server;
let worlds = 0;

const open = async (prefix: string, bucket = server.bucket) => {
  const store = { kind: 's3', bucket, prefix, endpoint: server.endpoint, region: 'eu-central-1' } as const;
  const opened = await openBucket(store);
  return { ...s3Artifacts(opened, artifactBounds), [Symbol.dispose]: () => opened[Symbol.dispose]() };
};

describe.skipIf(withoutS3)(`an S3-compatible server${withoutS3 ? ` (left out: ${withoutS3})` : ''}`, () => {
  beforeAll(async () => {
    server = await startS3Server();
  });
  afterAll(() => server.stop());

  artifactsContract('S3', async () => {
    const prefix = `world/${++worlds}`;
    return () => open(prefix);
  });

  test('a sweep removes results of seven days ago, and nothing that is not ours', async () => {
    using store = await open('swept');
    using other = await open('swept/01KAPN3YV8Q2T5W7X9Z0A1B2C3');
    await store.put(run, 'one', Buffer.from('text'), info);
    await other.put('foreign', 'one', Buffer.from('text'), info);
    await store.sweep(Date.now() + 6 * dayMs);
    expect(await store.read(run, 'one', 0, 1)).toBeDefined();
    await store.sweep(Date.now() + 8 * dayMs);
    expect(await store.read(run, 'one', 0, 1)).toBeUndefined();
    expect(await other.read('foreign', 'one', 0, 1)).toBeDefined();
  });

  test('more results than one page of a listing are dropped, each of them', async () => {
    using store = await open('many');
    const names = Array.from({ length: 1_050 }, (_, i) => `r${i}`);
    const { endpoint, bucket: Bucket } = server;
    const client = new S3Client({ endpoint, region: 'eu-central-1', forcePathStyle: true });
    const put = async (name: string) =>
      void (await client.send(new PutObjectCommand({ Bucket, Key: `many/${run}/spill/${name}`, Body: 'x' })));
    await inLanes(names, 50, put);
    client.destroy();
    await store.drop(run);
    const left: string[] = [];
    await inLanes(names, 50, async (name) => void ((await store.read(run, name, 0, 1)) && left.push(name)));
    expect(left).toEqual([]);
  });

  test('a bucket that is not there is reported at the start', async () => {
    await expect(open('any', 'no-such-bucket')).rejects.toMatchObject({
      code: 'invalid_config',
      message: 'ARTIFACT_STORE: the bucket no-such-bucket cannot be written to (NoSuchBucket)',
    });
  });
});

test('without the package the start names the one that is missing', async () => {
  const missing = Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });
  const store = { kind: 's3', bucket: 'results', prefix: '' } as const;
  await expect(openBucket(store, () => Promise.reject(missing))).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining('npm install @aws-sdk/client-s3') as string,
  });
});
