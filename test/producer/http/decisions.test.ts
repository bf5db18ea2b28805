import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { suspendedRun } from '../support/suspended.ts';
import { RunWriter } from '../support/run-writer.ts';
import { serverWorld } from './server-world.ts';

const money = [{ kind: 'budget', id: 'batch:b1' }] as const;
const path = (runId: string) => `/v1/runs/${runId}/decisions`;

test('a decision resumes the run, and a second one has nothing left to decide', async () => {
  const world = await serverWorld();
  const { runId } = await suspendedRun(world, money);
  const first = await world.send('POST', path(runId), { budget: 'approve', reason: 'worth it' });
  expect([first.status, first.body]).toEqual([202, { runId, status: 'queued' }]);
  const again = await world.send('POST', path(runId), { budget: 'approve' });
  expect([again.status, again.body.error.code]).toEqual([409, 'approval_not_pending']);
});

test('who decided is in the journal, as the first digits of the digest of the key', async () => {
  const sha256 = createHash('sha256').update('secret').digest('hex');
  const world = await serverWorld({ apiKeys: `${sha256}:default` });
  const { runId } = await suspendedRun(world, money);
  await world.send('POST', path(runId), { budget: 'reject' }, { authorization: 'Bearer secret' });
  const [last = ''] = await world.redis.lrange(world.keys.journal(runId), -1, -1);
  expect(JSON.parse(last)).toMatchObject({ t: 'decided', budget: 'reject', by: `key:${sha256.slice(0, 8)}` });
});

test('a key needs the scope approve, and sees only runs of its own tenant', async () => {
  const digest = (key: string) => createHash('sha256').update(key).digest('hex');
  const world = await serverWorld({
    apiKeys: `${digest('writer')}:default:read+write,${digest('boss')}:default:approve,${digest('other')}:other`,
  });
  const { runId } = await suspendedRun(world, money);
  const as = async (key: string) => {
    const { status, body } = await world.send(
      'POST',
      path(runId),
      { budget: 'approve' },
      { authorization: `Bearer ${key}` },
    );
    return [status, body.error?.code];
  };
  expect(await as('writer')).toEqual([403, 'forbidden']);
  expect(await as('other')).toEqual([404, 'run_not_found']);
  expect(await as('boss')).toEqual([202, undefined]);
});

test('a run that has ended answers 409, one that does not exist 404', async () => {
  const world = await serverWorld();
  const { runId } = await world.start();
  await new RunWriter(world.redis, world.keys, runId).end();
  const ended = await world.send('POST', path(runId), { budget: 'approve' });
  expect([ended.status, ended.body.error.code]).toEqual([409, 'already_terminal']);
  const none = await world.send('POST', path('01K9Z5N3T8R6V2X4B7C1D0E9FG'), { budget: 'approve' });
  expect([none.status, none.body.error.code]).toEqual([404, 'run_not_found']);
});

test.each([
  ['an empty body', '', 'validation', ''],
  ['no decision', {}, 'validation', 'budget'],
  ['an unknown decision', { budget: 'perhaps' }, 'validation', 'budget'],
  ['an unknown field', { budget: 'approve', approvals: [] }, 'validation', ''],
  ['a reason over its limit', { budget: 'reject', reason: 'x'.repeat(501) }, 'validation', 'reason'],
  ['an empty top-up', { budget: {} }, 'validation', 'budget'],
  ['two top-ups in one', { budget: { topUpUsd: 1, topUpMicrocents: 1 } }, 'validation', 'budget'],
  ['a top-up of nothing', { budget: { topUpUsd: 0 } }, 'validation', 'budget.topUpUsd'],
  ['a negative top-up', { budget: { topUpMicrocents: -5 } }, 'validation', 'budget.topUpMicrocents'],
  ['a top-up below one microcent', { budget: { topUpUsd: 1e-9 } }, 'validation', 'budget.topUpUsd'],
  ['a top-up in text', { budget: { topUpUsd: '5' } }, 'validation', 'budget'],
])('a decision with %s is refused and changes nothing', async (_, body, code, field) => {
  const world = await serverWorld();
  const run = await suspendedRun(world, money);
  const { status, body: answer } = await world.send('POST', path(run.runId), body);
  expect([status, answer.error.code]).toEqual([400, code]);
  expect(answer.error.details[0].path).toBe(field);
  expect(await run.get()).toMatchObject({ status: 'suspended', lastSequence: 1 });
});

test.each(['nobody!', '../x'])('the run id %s is refused', async (id) => {
  const { send } = await serverWorld();
  const { status, body } = await send('POST', path(encodeURIComponent(id)), { budget: 'approve' });
  expect([status, body.error.code]).toEqual([400, 'invalid_id']);
});
