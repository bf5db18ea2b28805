import { expect, test } from 'vitest';
import type { CancelRequest } from '../../../src/shared/contract/control.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import type { Ports } from '../../../src/worker/run/ports.ts';
import { CancelWatch } from '../../../src/worker/run/cancel-watch.ts';
import { until } from '../../support/redis.ts';

const cancel: CancelRequest = { drain: false, onPendingApprovals: 'deny' };

function world(flags: Map<string, CancelRequest>) {
  let tell: (runId: string, request: CancelRequest) => void = () => {};
  const ports = {
    log: silentLog,
    control: { onCancel: (listener: typeof tell) => ((tell = listener), { [Symbol.dispose]() {} }) },
    runs: { pendingCancels: async () => flags },
  };
  return { watch: new CancelWatch(ports as unknown as Ports), tell: (runId: string) => tell(runId, cancel) };
}

test('a cancel over the channel reaches only the run that it names', () => {
  const { watch, tell } = world(new Map());
  using _ = watch;
  const heard: string[] = [];
  watch.watch('a', () => heard.push('a'));
  watch.watch('b', () => heard.push('b'));
  tell('b');
  expect(heard).toEqual(['b']);
});

test('a flag is found although the channel stays silent', async () => {
  const { watch } = world(new Map([['a', cancel]]));
  using _ = watch;
  let heard = 0;
  watch.watch('a', () => (heard += 1));
  await until('the poll', () => heard > 0);
  expect(heard).toBe(1);
});
