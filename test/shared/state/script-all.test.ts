import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { runScriptAll } from '../../../src/shared/state/script.ts';
import { testPrefix, testRedis } from '../../support/redis.ts';

/** Adds its text to each list, and answers how long each is then. */
function pushScript() {
  // The text of each test's script is its own, so that Redis has not loaded it before.
  const source = `-- ${testPrefix()}
    local lengths = {}
    for i, key in ipairs(KEYS) do lengths[i] = redis.call('RPUSH', key, ARGV[i]) end
    return lengths`;
  return { name: 'push', source, sha: createHash('sha1').update(source).digest('hex') };
}

async function lists() {
  const redis = await testRedis();
  const prefix = testPrefix();
  const callOf = (name: string) => ({ keys: [`${prefix}:${name}`], args: [name], doing: `push to ${name}` });
  return { redis, callOf, has: async (name: string) => await redis.lrange(`${prefix}:${name}`, 0, -1) };
}

test('many calls of a script are answered one by one', async () => {
  const { redis, callOf, has } = await lists();
  const replies = await runScriptAll(redis, pushScript(), [callOf('a'), callOf('b'), callOf('a')]);
  expect(replies).toEqual([1, 1, 2].map((value) => ({ status: 'fulfilled', value })));
  expect(await has('b')).toEqual(['b']);
});

test('one that Redis refuses keeps no other from running', async () => {
  const { redis, callOf, has } = await lists();
  const wrong = callOf('wrong');
  await redis.set(wrong.keys[0] ?? '', 'no list');
  const replies = await runScriptAll(redis, pushScript(), [callOf('a'), wrong, callOf('c')]);
  expect(replies.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(replies[1]).toMatchObject({ reason: { code: 'internal', message: expect.stringContaining('push to wrong') } });
  expect(await has('c')).toEqual(['c']);
});

test('no call and one call are run, too', async () => {
  const { redis, callOf } = await lists();
  expect(await runScriptAll(redis, pushScript(), [])).toEqual([]);
  expect(await runScriptAll(redis, pushScript(), [callOf('a')])).toEqual([{ status: 'fulfilled', value: 1 }]);
});
