import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { runScriptAll } from '../../../src/shared/state/script.ts';
import { testPrefix, testRedis } from '../../support/redis.ts';

function scriptOf(lua: string) {
  // The text of each test's script is its own, so that Redis has not loaded it before.
  const source = `-- ${testPrefix()}\n${lua}`;
  return { name: 'own', source, sha: createHash('sha1').update(source).digest('hex') };
}

/** Adds its text to each list, and answers how long each is then. */
function pushScript() {
  return scriptOf(`
    local lengths = {}
    for i, key in ipairs(KEYS) do lengths[i] = redis.call('RPUSH', key, ARGV[i]) end
    return lengths`);
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

test('no script is given more than a megabyte or so, and one call that is larger is alone', async () => {
  const { redis } = await lists();
  const howMany = scriptOf('local all = {} for i = 1, #KEYS do all[i] = #KEYS end return all');
  const groupsOf = async (...sizes: readonly number[]) => {
    const calls = sizes.map((size) => ({ keys: ['k'], args: [Buffer.alloc(size), 'x'.repeat(9)], doing: 'count' }));
    return (await runScriptAll(redis, howMany, calls)).map((reply) => reply.status === 'fulfilled' && reply.value);
  };
  expect(await groupsOf(400_000, 400_000, 400_000, 3_000_000, 10, 10)).toEqual([2, 2, 1, 1, 2, 2]);
});

test('a call to which a script has no reply is run again by itself', async () => {
  const { redis, callOf, has } = await lists();
  const firstOnly = scriptOf(`
    local replies = {}
    for i, key in ipairs(KEYS) do replies[i] = i == 1 and redis.call('RPUSH', key, ARGV[i]) end
    return replies`);
  const replies = await runScriptAll(redis, firstOnly, ['a', 'b', 'c'].map(callOf));
  expect(replies.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
  expect(await Promise.all(['a', 'b', 'c'].map(has))).toEqual([['a'], ['b'], ['c']]);
});
