import { describe, expect, test } from 'vitest';
import { newNonce } from '../../src/shared/base/ids.ts';
import type { Inbox } from '../../src/shared/state/run/control/inbox.ts';

export interface InboxWorld {
  readonly inbox: Inbox;
  /** Sends a message to a running run; false when too many wait. */
  send(runId: string, id: string): Promise<boolean>;
}

const ids = async ({ inbox }: InboxWorld, runId: string) => (await inbox.read(runId)).map(({ id }) => id);

/** What every store of messages to runs promises. */
export function inboxContract(name: string, makeWorld: (runId: string) => Promise<InboxWorld>): void {
  describe(`${name} as a store of messages to running runs`, () => {
    test('messages are read in their order until they are dropped', async () => {
      const runId = newNonce();
      const world = await makeWorld(runId);
      for (const id of ['a', 'b', 'c']) expect(await world.send(runId, id)).toBe(true);
      expect(await ids(world, runId)).toEqual(['a', 'b', 'c']);
      await world.inbox.drop(runId, ['a', 'b']);
      expect(await ids(world, runId)).toEqual(['c']);
      await world.inbox.drop(runId, ['c', 'unheard of']);
      expect(await ids(world, runId)).toEqual([]);
    });

    test('two workers that drop the same messages drop no other', async () => {
      const runId = newNonce();
      const world = await makeWorld(runId);
      for (const id of ['a', 'b', 'c']) await world.send(runId, id);
      await Promise.all([world.inbox.drop(runId, ['a']), world.inbox.drop(runId, ['a'])]);
      await world.inbox.drop(runId, ['a']);
      expect(await ids(world, runId)).toEqual(['b', 'c']);
    });

    test('a run that never reads gets a hundred messages and no more', async () => {
      const runId = newNonce();
      const world = await makeWorld(runId);
      for (let n = 0; n < 100; n++) expect(await world.send(runId, `m${n}`)).toBe(true);
      expect(await world.send(runId, 'one more')).toBe(false);
      expect(await ids(world, runId)).toHaveLength(100);
    });
  });
}
