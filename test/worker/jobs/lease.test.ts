import { expect, test } from 'vitest';
import { Leases } from '../../../src/worker/jobs/consumer.ts';
import { until } from '../../support/redis.ts';

function leaseOf(leases: Leases, jobId: string) {
  const controller = new AbortController();
  return { ...leases.begin(jobId, controller), signal: controller.signal };
}

test('a lease that is not renewed aborts with lock_lost and a renewed one does not', async () => {
  using leases = new Leases(250);
  const kept = leaseOf(leases, 'kept');
  const lost = leaseOf(leases, 'lost');
  await until('the loss', () => {
    leases.renewed(['kept', 'unknown']);
    return lost.signal.aborted;
  });
  expect(lost.signal.reason).toMatchObject({ code: 'lock_lost' });
  expect(kept.signal.aborted).toBe(false);
});

test('ending an overtaken lease leaves the lease of the later delivery alone', () => {
  using leases = new Leases(10_000);
  const first = leaseOf(leases, 'job');
  const second = leaseOf(leases, 'job');
  first.end();
  leases.lost('job');
  expect(second.signal.aborted).toBe(true);
  expect(first.signal.aborted).toBe(false);
});
