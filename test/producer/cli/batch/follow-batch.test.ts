import { expect, test } from 'vitest';
import { followBatch } from '../../../../src/producer/cli/batch/follow-batch.ts';
import { RunError } from '../../../../src/shared/base/errors.ts';
import type { BatchView } from '../../../../src/shared/contract/batch.ts';
import { batchView } from './batch-view.ts';

/** A server whose streams are these, one after the other; an error breaks one. */
function streams(...all: (readonly (BatchView | Error)[])[]) {
  let next = 0;
  return {
    async *events() {
      for (const item of all[next++] ?? []) {
        if (item instanceof Error) throw item;
        yield item;
      }
    },
  };
}

function watched() {
  const seen: string[] = [];
  const watcher = {
    progress: ({ status }: BatchView) => seen.push(status),
    outOfMoney: ({ name }: BatchView) => seen.push(`${name} has no money`),
    waiting: (message: string) => seen.push(message),
  };
  return { seen, watcher };
}

const never = new AbortController().signal;
const away = new RunError('queue_unavailable', 'away');

test('a stream that breaks or ends is opened again until the batch has ended', async () => {
  const { seen, watcher } = watched();
  const ended = batchView({ status: 'completed' });
  const server = streams([batchView(), away], [batchView()], [ended]);
  expect(await followBatch(server, batchView(), watcher, never)).toEqual(ended);
  expect(seen).toEqual(['in_progress', 'away', 'in_progress', 'completed']);
});

test.each(['paused', 'quoted', 'cancelled', 'expired', 'failed'] as const)(
  'a batch that is %s is not followed any longer',
  async (status) => {
    const { watcher } = watched();
    const server = streams([batchView(), batchView({ status }), batchView()]);
    expect((await followBatch(server, batchView(), watcher, never)).status).toBe(status);
  },
);

test('that all open lines wait for money is said once, and again when they wait anew', async () => {
  const { seen, watcher } = watched();
  const waits = (waitingForMoney: number) => batchView({ open: { total: 2, waitingForMoney, waitingForPeople: 0 } });
  const server = streams([waits(1), waits(2), waits(2), waits(0), waits(2), batchView({ status: 'completed' })]);
  await followBatch(server, batchView(), watcher, never);
  expect(seen.filter((text) => text.includes('money'))).toEqual(['in has no money', 'in has no money']);
});

test('an error that does not pass ends it, and so does an interrupt', async () => {
  const { watcher } = watched();
  const gone = new RunError('not_found', 'gone');
  await expect(followBatch(streams([gone]), batchView(), watcher, never)).rejects.toBe(gone);
  const stop = new AbortController();
  const following = followBatch(streams([away], [away], [away]), batchView(), watcher, stop.signal);
  stop.abort(new Error('stopped'));
  await expect(following).rejects.toThrow('stopped');
});
