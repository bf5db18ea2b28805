import { expect, test } from 'vitest';
import { keysFor } from '../../src/shared/state/keys.ts';
import { sha256 } from '../../src/shared/base/ids.ts';
import { ConsoleSessions, maxSessionsOfKey, sessionTtlS } from '../../src/shared/state/console-sessions.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { testPrefix, testRedis } from '../support/redis.ts';

const [mine, other] = ['mine', 'other'].map((key) => ({ sha256: sha256(key) })) as [Key, Key];
const known = [mine, other];

interface Key {
  readonly sha256: string;
}

/** Sessions in the test Redis, or in the one at `url`. */
async function world(url?: string) {
  const keys = keysFor(testPrefix());
  const clock = new FakeClock();
  const redis = await testRedis('work', url);
  return { keys, clock, redis, sessions: new ConsoleSessions({ keys, clock, reach: (work) => work(redis) }) };
}

/** What sessions of the console are, whatever Redis they are kept in. */
export function consoleSessionsContract(name: string, url: () => string | undefined): void {
  test(`${name}: a session stands for the key that opened it, until it is closed`, async () => {
    const { sessions } = await world(url());
    const [first, second] = [await sessions.open(mine.sha256), await sessions.open(other.sha256)];
    expect([await sessions.keyOf(first, known), await sessions.keyOf(second, known)]).toEqual(known);
    expect(await sessions.keyOf(first, [other]), 'a key that is not configured any more').toBeUndefined();
    await sessions.close(first, known);
    expect(await sessions.keyOf(first, known)).toBeUndefined();
    expect(await sessions.keyOf(second, known)).toBe(other);
  });

  test(`${name}: a session is over after twelve hours, whatever else the key has open`, async () => {
    const { sessions, clock } = await world(url());
    const early = await sessions.open(mine.sha256);
    await clock.advance(sessionTtlS * 1_000 - 1);
    const late = await sessions.open(mine.sha256);
    expect(await sessions.keyOf(early, known)).toBe(mine);
    await clock.advance(1);
    expect(await sessions.keyOf(early, known)).toBeUndefined();
    expect(await sessions.keyOf(late, known)).toBe(mine);
  });

  test(`${name}: one session too many closes the oldest of its key, and none of another`, async () => {
    const { sessions, clock, redis, keys } = await world(url());
    const ofOther = await sessions.open(other.sha256);
    const opened: string[] = [];
    for (let count = 0; count < maxSessionsOfKey; count++) {
      await clock.advance(1);
      opened.push(await sessions.open(mine.sha256));
    }
    const [oldest = '', second = ''] = opened;
    expect(await sessions.keyOf(oldest, known)).toBe(mine);
    await clock.advance(1);
    const newest = await sessions.open(mine.sha256);
    expect(await sessions.keyOf(oldest, known)).toBeUndefined();
    for (const id of [second, newest]) expect(await sessions.keyOf(id, known)).toBe(mine);
    expect(await sessions.keyOf(ofOther, known)).toBe(other);
    expect(await redis.zcard(keys.sessions(mine.sha256))).toBe(maxSessionsOfKey);
  });

  test(`${name}: logins at once leave no more sessions than a key may have`, async () => {
    const { sessions, redis, keys } = await world(url());
    const logins = Array.from({ length: maxSessionsOfKey + 50 }, async () => await sessions.open(mine.sha256));
    await Promise.all(logins);
    expect(await redis.zcard(keys.sessions(mine.sha256))).toBe(maxSessionsOfKey);
  });

  test(`${name}: sessions of a key go by themselves, and none is kept past its time`, async () => {
    const { sessions, clock, redis, keys } = await world(url());
    await sessions.open(mine.sha256);
    await clock.advance(sessionTtlS * 1_000);
    await redis.expire(keys.sessions(mine.sha256), 5);
    await sessions.open(mine.sha256);
    expect(await redis.zcard(keys.sessions(mine.sha256))).toBe(1);
    expect(await redis.ttl(keys.sessions(mine.sha256))).toBeGreaterThan(sessionTtlS - 60);
    expect(await redis.ttl(keys.sessions(mine.sha256))).toBeLessThanOrEqual(sessionTtlS);
  });
}
