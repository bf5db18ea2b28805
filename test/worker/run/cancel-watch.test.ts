import { expect, test } from 'vitest';
import type { CancelRequest } from '../../../src/shared/contract/control.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import type { Ports } from '../../../src/worker/run/ports.ts';
import { CancelWatch } from '../../../src/worker/run/signals.ts';
import { until } from '../../support/redis.ts';

const cancel: CancelRequest = { drain: false, onPendingApprovals: 'deny' };

function world(flags: Map<string, CancelRequest>) {
  let publish: (runId: string, request: CancelRequest) => void = () => {};
  const ports = {
    log: silentLog,
    control: { onCancel: (listener: typeof publish) => ((publish = listener), { [Symbol.dispose]() {} }) },
    runs: { pendingCancels: async () => flags },
  };
  return { watch: new CancelWatch(ports as unknown as Ports), publish: (runId: string) => publish(runId, cancel) };
}

test('a cancel over the channel reaches only the run that it names', () => {
  const { watch, publish } = world(new Map());
  using _ = watch;
  const received: string[] = [];
  watch.watch('a', () => received.push('a'));
  watch.watch('b', () => received.push('b'));
  publish('b');
  expect(received).toEqual(['b']);
});

test('a flag is found although the channel stays silent', async () => {
  const { watch } = world(new Map([['a', cancel]]));
  using _ = watch;
  let received = 0;
  watch.watch('a', () => (received += 1));
  await until('the poll', () => received > 0);
  expect(received).toBe(1);
});
