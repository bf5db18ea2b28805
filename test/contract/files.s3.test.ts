import { ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe } from 'vitest';
import { startS3Server, withoutS3, type S3Server } from '../support/s3-server.ts';
import { archiveContract } from './archive.ts';
import { filesContract } from './files.ts';
import { filesWorld } from './files-world.ts';
import { openMedia } from '../../src/shared/state/results/media-store.ts';
import { mediaContract } from './media-store.ts';

const region = 'eu-central-1';
let server: S3Server;
let client: S3Client;
let worlds = 0;

describe.skipIf(withoutS3)(`an S3-compatible server${withoutS3 ? ` (left out: ${withoutS3})` : ''}`, () => {
  beforeAll(async () => {
    server = await startS3Server();
    client = new S3Client({ endpoint: server.endpoint, region, forcePathStyle: true });
  });
  afterAll(async () => {
    client.destroy();
    await server.stop();
  });

  const makeWorld = async () => {
    const { endpoint, bucket } = server;
    const prefix = `files/${++worlds}`;
    const world = await filesWorld({ kind: 's3', bucket, prefix, endpoint, region });
    const leftovers = async () => {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: `${prefix}/` }));
      return [...new Set(Contents.map(({ Key = '' }) => Key.slice(prefix.length + 1).split('/')[1] ?? ''))];
    };
    return { ...world, leftovers };
  };
  filesContract('S3', makeWorld);
  archiveContract('S3', makeWorld);

  mediaContract('S3', async () => {
    const store = {
      kind: 's3',
      bucket: server.bucket,
      prefix: `media/${++worlds}`,
      endpoint: server.endpoint,
      region,
    } as const;
    const world = await filesWorld(store);
    return openMedia({ ...(await world.process()).deps, ttlS: 100 });
  });
});
