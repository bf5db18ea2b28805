import { describe, expect, test } from 'vitest';
import { newNonce } from '../../src/shared/base/ids.ts';
import type { Inbox } from '../../src/shared/state/run/control/inbox.ts';

export interface InboxWorld {
  readonly inbox: Inbox;
  /** Says something to a run that is at work; false when too much waits. */
  say(runId: string, id: string): Promise<boolean>;
}

const ids = async ({ inbox }: InboxWorld, runId: string) => (await inbox.read(runId)).map(({ id }) => id);

/** What every store of what users say to runs promises. */
export function inboxContract(name: string, makeWorld: (runId: string) => Promise<InboxWorld>): void {
  describe(`${name} as a store of what is said to runs`, () => {
    test('what was said is heard in its order until it is dropped', async () => {
      const runId = newNonce();
      const world = await makeWorld(runId);
      for (const id of ['a', 'b', 'c']) expect(await world.say(runId, id)).toBe(true);
      expect(await ids(world, runId)).toEqual(['a', 'b', 'c']);
      await world.inbox.drop(runId, ['a', 'b']);
      expect(await ids(world, runId)).toEqual(['c']);
      await world.inbox.drop(runId, ['c', 'unheard of']);
      expect(await ids(world, runId)).toEqual([]);
    });

    test('two workers that drop the same messages drop no other', async () => {
      const runId = newNonce();
      const world = await makeWorld(runId);
      for (const id of ['a', 'b', 'c']) await world.say(runId, id);
      await Promise.all([world.inbox.drop(runId, ['a']), world.inbox.drop(runId, ['a'])]);
      await world.inbox.drop(runId, ['a']);
      expect(await ids(world, runId)).toEqual(['b', 'c']);
    });

    test('a run that never listens is told a hundred things and no more', async () => {
      const runId = newNonce();
      const world = await makeWorld(runId);
      for (let n = 0; n < 100; n++) expect(await world.say(runId, `m${n}`)).toBe(true);
      expect(await world.say(runId, 'one more')).toBe(false);
      expect(await ids(world, runId)).toHaveLength(100);
    });
  });
}
