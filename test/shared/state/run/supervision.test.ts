import { expect, test } from 'vitest';
import { keysFor } from '../../../../src/shared/state/keys.ts';
import { redisSupervision } from '../../../../src/shared/state/run/supervision.ts';
import { testPrefix, testRedis } from '../../../support/redis.ts';
import { runKeySpace } from '../../../support/run-key-space.ts';

test('a run whose watch cannot be reported is not to blame', async () => {
  const redis = await testRedis();
  const supervision = redisSupervision(runKeySpace(redis, keysFor(testPrefix())));
  redis.disconnect();
  const away = { code: 'queue_unavailable' };
  await expect(supervision.watching('w', '01HZZZZZZZZZZZZZZZZZZZZZZZ')).rejects.toMatchObject(away);
  await expect(supervision.watching('w', undefined)).rejects.toMatchObject(away);
  await expect(supervision.isExcused('w', '01HZZZZZZZZZZZZZZZZZZZZZZZ')).rejects.toMatchObject(away);
});
