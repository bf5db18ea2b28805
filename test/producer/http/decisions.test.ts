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
  expect([first.status, first.body]).toEqual([202, { runId, status: 'queued', pending: [] }]);
  const again = await world.send('POST', path(runId), { budget: 'approve' });
  expect([again.status, again.body.error.code]).toEqual([409, 'approval_not_pending']);
});

test('who decided is in the journal, as the first digits of the digest of the key', async () => {
  const sha256 = createHash('sha256').update('secret').digest('hex');
  const world = await serverWorld({ apiKeys: `${sha256}:default:*` });
  const { runId } = await suspendedRun(world, money);
  await world.send('POST', path(runId), { budget: 'reject' }, { authorization: 'Bearer secret' });
  const [last = ''] = await world.redis.lrange(world.keys.journal(runId), -1, -1);
  expect(JSON.parse(last)).toMatchObject({ t: 'decided', budget: 'reject', by: `key:${sha256.slice(0, 8)}` });
});

test('a key needs the scope approve, and sees only runs of its own tenant', async () => {
  const digest = (key: string) => createHash('sha256').update(key).digest('hex');
  const world = await serverWorld({
    apiKeys: `${digest('writer')}:default:read+write,${digest('boss')}:default:approve,${digest('other')}:other:*`,
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
  ['no decision', {}, 'validation', ''],
  ['an unknown decision', { budget: 'perhaps' }, 'validation', 'budget'],
  ['an unknown field', { budget: 'approve', approval: [] }, 'validation', 'approval'],
  ['no approval', { approvals: [] }, 'validation', 'approvals'],
  [
    'other arguments for a denial',
    { approvals: [{ toolCallId: 'c', granted: false, updatedArgs: {} }] },
    'validation',
    'approvals.0',
  ],
  ['an approval without a word', { approvals: [{ toolCallId: 'c' }] }, 'validation', 'approvals.0.granted'],
  [
    'arguments that are no object',
    { approvals: [{ toolCallId: 'c', granted: true, updatedArgs: [1] }] },
    'validation',
    'approvals.0.updatedArgs',
  ],
  ['an answer without text', { answers: [{ toolCallId: 'c', answer: 5 }] }, 'validation', 'answers.0.answer'],
  ['a person without a name', { budget: 'approve', by: 7 }, 'validation', 'by'],
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

test.each(['none!', '../x'])('the run id %s is refused', async (id) => {
  const { send } = await serverWorld();
  const { status, body } = await send('POST', path(encodeURIComponent(id)), { budget: 'approve' });
  expect([status, body.error.code]).toEqual([400, 'invalid_id']);
});

const calls = [
  { kind: 'approval', id: 'call_1', toolName: 'transfer', args: { amount: 5 } },
  { kind: 'user_input', id: 'q_1', toolName: 'ask_user', reason: 'Which?' },
] as const;

test('arguments that the call does not take decide nothing, and the answer says what is wrong', async () => {
  const world = await serverWorld();
  const properties = { amount: { type: 'integer' }, to: { type: 'string' } };
  const argsSchema = { type: 'object', properties, required: ['amount'], additionalProperties: false };
  const { runId } = await suspendedRun(world, [{ ...calls[0], argsSchema }, calls[1]]);
  const grant = async (updatedArgs: object) =>
    await world.send('POST', path(runId), { approvals: [{ toolCallId: 'call_1', granted: true, updatedArgs }] });
  const wrong = await grant({ amount: 'ten', colour: 'blue' });
  expect([wrong.status, wrong.body.error.code]).toEqual([400, 'validation']);
  expect(wrong.body.error.message).toBe(
    `call call_1 does not take these arguments: arguments: must NOT have additional properties (colour); amount: must be integer. Nothing was decided: run ${runId} still waits`,
  );
  expect(wrong.body.error.details[1]).toEqual({
    path: 'approvals.0.updatedArgs',
    message: 'amount: must be integer',
  });
  const { body } = await world.send('GET', '/v1/approvals');
  expect(body.approvals.map((item: object) => 'argsSchema' in item)).toEqual([true, false]);
  expect(body.approvals[0]).toMatchObject({ toolCallId: 'call_1', argsSchema, votes: [] });
  const view = await world.send('GET', `/v1/runs/${runId}`);
  expect(view.body).toMatchObject({ status: 'suspended', pending: [{ toolCallId: 'call_1' }, {}] });
  expect(view.body.pending[0].argsSchema).toBeUndefined();
  expect((await grant({ amount: 4 })).status).toBe(202);
});

test('calls are decided one by one, and the answer says what is still pending and who decided', async () => {
  const world = await serverWorld();
  const { runId } = await suspendedRun(world, calls);
  const approvals = [{ toolCallId: 'call_1', granted: true, updatedArgs: { amount: 4, to: [] } }];
  const first = await world.send('POST', path(runId), { approvals, by: 'kim' });
  expect([first.status, first.body]).toEqual([
    202,
    {
      runId,
      status: 'queued',
      pending: [expect.objectContaining({ toolCallId: 'q_1', reason: 'Which?' })],
      decisions: [expect.objectContaining({ toolCallId: 'call_1', granted: true, edited: true, by: ['kim'] })],
    },
  ]);
  const again = await world.send('POST', path(runId), { approvals, by: 'ada' });
  expect([again.status, again.body.decisions[0].by]).toEqual([202, ['kim']]);
  const opposite = await world.send('POST', path(runId), { approvals: [{ toolCallId: 'call_1', granted: false }] });
  expect([opposite.status, opposite.body.error.code]).toEqual([409, 'approval_not_pending']);
  expect(opposite.body.error.message).toMatch(/approved with other arguments by kim/);
  const answered = await world.send('POST', path(runId), { answers: [{ toolCallId: 'q_1', answer: 'blue' }] });
  expect([answered.status, answered.body.pending]).toEqual([202, []]);
  const { body: run } = await world.send('GET', `/v1/runs/${runId}`);
  expect(run.decisions).toMatchObject([{ granted: true }, { toolCallId: 'q_1', answered: true, by: [] }]);
});

test('with keys each key is a person, and a name beside it is refused', async () => {
  const digest = (key: string) => createHash('sha256').update(key).digest('hex');
  const world = await serverWorld({ apiKeys: `${digest('one')}:default:approve,${digest('two')}:default:approve` });
  const { runId } = await suspendedRun(world, [{ ...calls[0], approvers: 2 }]);
  const as = async (key: string, more: object = {}) => {
    const body = { approvals: [{ toolCallId: 'call_1', granted: true }], ...more };
    return await world.send('POST', path(runId), body, { authorization: `Bearer ${key}` });
  };
  expect((await as('one', { by: 'kim' })).body.error).toMatchObject({ code: 'validation', details: [{ path: 'by' }] });
  expect((await as('one')).body.status).toBe('suspended');
  expect((await as('one')).body.status).toBe('suspended');
  const { body } = await as('two');
  const names = ['one', 'two'].map((key) => `key:${digest(key).slice(0, 8)}`);
  expect([body.status, body.decisions[0].by]).toEqual(['queued', names]);
});

test('without keys a person without a name does not count where several people are needed', async () => {
  const world = await serverWorld();
  const { runId } = await suspendedRun(world, [{ ...calls[0], approvers: 2 }]);
  const body = { approvals: [{ toolCallId: 'call_1', granted: true }] };
  const { status, body: answer } = await world.send('POST', path(runId), body);
  expect([status, answer.error.code, answer.error.message]).toEqual([
    400,
    'validation',
    expect.stringContaining('2 different people: say who you are (`by`)'),
  ]);
});

test('a decision that comes too late answers 409, and one with a credential 422', async () => {
  const world = await serverWorld();
  const { runId } = await suspendedRun(world, [{ ...calls[0], expiresAt: '2026-01-01T00:00:00.000Z' }]);
  const grant = { toolCallId: 'call_1', granted: true };
  const late = await world.send('POST', path(runId), { approvals: [grant] });
  expect([late.status, late.body.error.code]).toEqual([409, 'approval_expired']);
  const secret = await world.send('POST', path(runId), { approvals: [{ ...grant, updatedArgs: { apiKey: 'x' } }] });
  expect([secret.status, secret.body.error.code]).toEqual([422, 'secret_in_payload']);
});

test('the inbox of a tenant needs the scope read, and pages', async () => {
  const digest = (key: string) => createHash('sha256').update(key).digest('hex');
  const world = await serverWorld({
    apiKeys: `${digest('reader')}:default:read,${digest('boss')}:default:approve,${digest('other')}:other:*`,
  });
  const { runId } = await suspendedRun(world, calls);
  await suspendedRun(world, money, { agent: 'other' });
  const list = async (key: string, query = '') => {
    const answer = await world.send('GET', `/v1/approvals${query}`, undefined, { authorization: `Bearer ${key}` });
    return [
      answer.status,
      answer.body.approvals?.map(({ toolCallId, id }: Record<string, string>) => toolCallId ?? id) ??
        answer.body.error.code,
    ];
  };
  expect(await list('boss')).toEqual([403, 'forbidden']);
  expect(await list('other')).toEqual([200, []]);
  expect(await list('reader', '?kind=approval&agent=support')).toEqual([200, ['call_1']]);
  expect(await list('reader', '?kind=budget')).toEqual([200, ['batch:b1']]);
  expect(await list('reader', '?kind=retry')).toEqual([400, 'validation']);
  expect(await list('reader', '?limit=0')).toEqual([400, 'validation']);
  const first = await world.send('GET', '/v1/approvals?limit=1', undefined, { authorization: 'Bearer reader' });
  const rest = await list('reader', `?cursor=${first.body.cursor}`);
  const seen = [...first.body.approvals.map(({ id }: { id: string }) => id), ...(rest[1] as string[])];
  expect(new Set(seen)).toEqual(new Set(['batch:b1', 'call_1', 'q_1']));
  expect(seen).toHaveLength(3);
  const shown = await world.send('GET', '/v1/approvals?kind=approval', undefined, { authorization: 'Bearer reader' });
  expect(shown.body.approvals[0]).toMatchObject({ runId, href: `/v1/runs/${runId}`, args: { amount: 5 }, votes: [] });
});

test('a cancel that leaves a run waiting for people says so', async () => {
  const world = await serverWorld();
  const { runId } = await suspendedRun(world, calls);
  const cancel = (body: object) => world.send('POST', `/v1/runs/${runId}/cancel`, body);
  const held = await cancel({ onPendingApprovals: 'hold' });
  expect([held.status, held.body]).toEqual([202, { runId, status: 'suspended', cancelling: false, held: true }]);
  const ended = await cancel({});
  expect([ended.status, ended.body]).toEqual([202, { runId, status: 'cancelled', cancelling: false }]);
});
