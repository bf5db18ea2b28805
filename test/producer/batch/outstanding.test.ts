import { expect, onTestFinished, test } from 'vitest';
import { Outstanding, type RunsToFollow } from '../../../src/producer/batch/outstanding.ts';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import { until } from '../../support/redis.ts';

/** A client in whose feed one run has ended. */
function clientWithEnd(runId: string, onRead: () => void = () => {}): RunsToFollow & { wasRead: boolean } {
  const client = {
    wasRead: false,
    get: () => Promise.reject(new RunError('queue_unavailable', 'away')),
    async *firehose({ signal }: { signal?: AbortSignal } = {}) {
      yield { type: 'run.cancelled', runId } as RunEvent;
      client.wasRead = true;
      await new Promise((resolve) => signal?.addEventListener('abort', resolve));
    },
    result(id: string) {
      onRead();
      return Promise.resolve({ runId: id, status: 'completed' as const, text: '', costMicrocents: 0, steps: 1 });
    },
  };
  return client;
}

test('a run that ended before its acceptance was known here is reported as soon as it is', async () => {
  const client = clientWithEnd('R');
  const reported: number[] = [];
  const outstanding = new Outstanding(
    client,
    (run) => Promise.resolve(void reported.push(run.line)),
    () => {},
  );
  const stop = new AbortController();
  const following = outstanding.follow(stop.signal);
  await until('the feed to be read', () => client.wasRead);
  await outstanding.add({ runId: 'R', line: 7, id: undefined, executionId: 'batch:b:o:7' }, false);
  expect(reported).toEqual([7]);
  stop.abort();
  await following;
});

test('a run that is looked at twice at once is reported once', async () => {
  const reported: string[] = [];
  const release = Promise.withResolvers<void>();
  const outstanding = new Outstanding(
    clientWithEnd('other'),
    async ({ runId }) => {
      reported.push(runId);
      await release.promise;
    },
    () => {},
  );
  const adding = [
    outstanding.add({ runId: 'R', line: 1, id: undefined, executionId: 'batch:b:o:1' }, true),
    outstanding.add({ runId: 'R', line: 1, id: undefined, executionId: 'batch:b:o:1' }, true),
  ];
  await until('the end to be reported', () => reported.length > 0);
  expect(outstanding.size).toBe(0);
  release.resolve();
  await Promise.all(adding);
  expect(reported).toEqual(['R']);
});

test('a run counts until its end has been written', async () => {
  const release = Promise.withResolvers<void>();
  const outstanding = new Outstanding(
    clientWithEnd('other'),
    () => release.promise,
    () => {},
  );
  const adding = outstanding.add({ runId: 'R', line: 1, id: undefined, executionId: 'batch:b:o:1' }, true);
  let free = false;
  const waiting = outstanding.fewerThan(1, new AbortController().signal).then(() => (free = true));
  await until('the end to be reported', () => outstanding.size === 0);
  expect(free).toBe(false);
  release.resolve();
  await Promise.all([adding, waiting]);
  expect(free).toBe(true);
});

test('the feed says which runs wait and for which money, and that they go on', async () => {
  const next = [1, 2, 3].map(() => Promise.withResolvers<RunEvent>());
  const client: RunsToFollow = {
    ...clientWithEnd('other'),
    async *firehose({ signal }: { signal?: AbortSignal } = {}) {
      // Of a run that is not of the batch.
      yield { type: 'run.suspended', runId: 'other', reason: 'approval', pending: [] } as unknown as RunEvent;
      for (const { promise } of next) yield await promise;
      await new Promise((resolve) => signal?.addEventListener('abort', resolve));
    },
    result: () => Promise.reject(new RunError('queue_unavailable', 'away')),
  };
  let news = 0;
  const outstanding = new Outstanding(
    client,
    () => Promise.resolve(),
    () => void (news += 1),
  );
  await outstanding.add({ runId: 'R', line: 1, id: undefined, executionId: 'batch:b:o:1' }, false);
  const stop = new AbortController();
  const following = outstanding.follow(stop.signal);
  const pending = [{ kind: 'budget', id: 'batch:b', requestedAt: '' }];
  next[0]?.resolve({ type: 'run.suspended', runId: 'R', reason: 'budget', pending } as unknown as RunEvent);
  await until('the run to wait', () => news === 1);
  expect([outstanding.waiting, [...outstanding.waitingForMoney]]).toEqual([1, [['batch:b', 1]]]);
  const person = [{ kind: 'approval', id: 'call_1', requestedAt: '' }];
  next[1]?.resolve({ type: 'run.suspended', runId: 'R', reason: 'approval', pending: person } as unknown as RunEvent);
  await until('the run to wait for a person', () => news === 2);
  expect([outstanding.waiting, [...outstanding.waitingForMoney]]).toEqual([1, []]);
  next[2]?.resolve({ type: 'run.resumed', runId: 'R', directiveSummary: '' } as RunEvent);
  await until('the run to go on', () => news === 3);
  expect([outstanding.waiting, outstanding.size]).toEqual([0, 1]);
  stop.abort();
  await following;
});

test('a defect of the feed ends the watch with its own error', async () => {
  const client: RunsToFollow = {
    ...clientWithEnd('other'),
    // oxlint-disable-next-line require-yield -- it fails before its first event
    async *firehose() {
      throw new RunError('internal', 'a defect');
    },
  };
  const outstanding = new Outstanding(
    client,
    () => Promise.resolve(),
    () => {},
  );
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  await expect(outstanding.follow(stop.signal)).rejects.toThrow('a defect');
});
