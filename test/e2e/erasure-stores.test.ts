import { S3Client } from '@aws-sdk/client-s3';
import { onTestFinished, test } from 'vitest';
import { Millrace } from '../../src/producer/index.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { canaryIn, checkErasingAUser, everything, objectsIn } from '../support/erased-user.ts';
import { testRedis } from '../support/redis.ts';
import { startS3Server, withoutS3 } from '../support/s3-server.ts';
import { makeWorld } from '../support/world.ts';

test('erasing a user leaves no byte where Redis is the store', async () => {
  const world = await makeWorld({ producer: true, env: { ARTIFACT_STORE: 'redis', ARCHIVE_TTL_S: '3600' } });
  const { redisUrl, prefix, mill } = world.fleet;
  const redis = await testRedis('work', redisUrl);
  const places = () => everything([redis], prefix);
  const holders = async () => canaryIn(await places());
  // The store's keys. Elsewhere the ids stay for a time: what a run cost, and that it was erased.
  const names = async () => [...(await places()).keys()].filter((name) => /\{(blobs|files|archive)/.test(name));
  await checkErasingAUser({ world, mill, redis, keys: keysFor(prefix), holders, names });
});

test.skipIf(withoutS3)(
  `erasing a user leaves no byte in a bucket${withoutS3 ? ` (left out: ${withoutS3})` : ''}`,
  async () => {
    const server = await startS3Server();
    onTestFinished(() => server.stop());
    const artifactStore = `s3://${server.bucket}/erasure?endpoint=${server.endpoint}&region=eu-central-1`;
    const client = new S3Client({ endpoint: server.endpoint, region: 'eu-central-1', forcePathStyle: true });
    onTestFinished(() => client.destroy());
    const credentials = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
    const env = { ARTIFACT_STORE: artifactStore, ARCHIVE_TTL_S: '3600', ...credentials };
    const world = await makeWorld({ producer: true, env });
    const { redisUrl, prefix } = world.fleet;
    const redis = await testRedis('work', redisUrl);
    const mill = new Millrace({ redis: redisUrl, prefix, artifactStore, modelAllowlist: ['*'] });
    onTestFinished(() => mill.close());
    const objects = () => objectsIn(client, server.bucket);
    const holders = async () => [...canaryIn(await everything([redis], prefix)), ...canaryIn(await objects())];
    const names = async () => [...(await objects()).keys()];
    await checkErasingAUser({ world, mill, redis, keys: keysFor(prefix), holders, names });
  },
);
