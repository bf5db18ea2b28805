import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { clientWorld } from './options/client.ts';
import { suspendedRun } from '../support/suspended.ts';
import { CliCommand, millrace, settings } from './support/cli-process.ts';

const money = [{ kind: 'budget', id: 'batch:b1', reason: 'the next call may cost $0.02' }] as const;

test('a run that waits for money shows what for and how it goes on', async () => {
  const world = await clientWorld();
  const { runId } = await suspendedRun(world, money, { batch: 'b1' });
  const got = await millrace(['get', runId], { env: settings(world.prefix) });
  expect(got.stdout).toContain('money of batch b1: the next call may cost $0.02');
  for (const way of [`millrace.mjs approve ${runId}`, `millrace.mjs deny ${runId}`, '--top-up'])
    expect(got.stdout).toContain(way);
  const listed = await millrace(['runs', '--status', 'suspended'], { env: settings(world.prefix) });
  expect(listed.stdout).toContain('money of batch b1');
});

test('approve and deny resume a run, and say that there is nothing to decide afterwards', async () => {
  const world = await clientWorld();
  const [first, second] = [await suspendedRun(world, money), await suspendedRun(world, money)];
  const approved = await millrace(['approve', first.runId], { env: settings(world.prefix) });
  expect([approved.code, approved.stdout]).toEqual([0, `${first.runId} goes on; its next step may pass the cap\n`]);
  const denied = await millrace(['deny', second.runId, '--reason', 'too dear', '--json'], {
    env: settings(world.prefix),
  });
  expect([denied.code, JSON.parse(denied.stdout).run.status]).toEqual([0, 'queued']);
  const again = await millrace(['approve', first.runId], { env: settings(world.prefix) });
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('approval_not_pending')]);
});

test('a call that a run does not wait for is not decided', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, money);
  const answer = await millrace(['deny', run.runId, 'call-1'], { env: settings(world.prefix) });
  expect([answer.code, answer.stderr]).toEqual([
    1,
    expect.stringContaining('does not wait for a decision about call call-1'),
  ]);
  expect((await run.get()).status).toBe('suspended');
});

test('get shows attempts and cost by model', async () => {
  const world = await clientWorld();
  const { runId } = await suspendedRun(world, money);
  const attempt = { step: 1, requestId: 'r', priced: true, latencyMs: 1, attemptNumber: 1 };
  const usage = { input: 1_000, output: 200, cached: 34, cacheWrite: 0, total: 1_234 };
  const attempts = [
    {
      ...attempt,
      provider: 'a',
      model: 'big',
      outcome: 'failed',
      costMicrocents: 0,
      error: { kind: 'transient', message: 'gone' },
    },
    { ...attempt, provider: 'b', model: 'small', outcome: 'succeeded', costMicrocents: 1_000_000, usage },
    { ...attempt, provider: 'b', model: 'small', outcome: 'succeeded', costMicrocents: 2_000_000, usage },
  ];
  await world.redis.hset(world.keys.run(runId), 'attempts', JSON.stringify(attempts));
  const { stdout } = await millrace(['get', runId], { env: settings(world.prefix) });
  expect(stdout).toMatch(/^MODEL\s+ATTEMPTS\s+FAILED\s+TOKENS IN\s+TOKENS OUT\s+COST\s+LAST TROUBLE$/m);
  expect(stdout).toMatch(/^a\/big\s+1\s+1\s+0\s+0\s+\$0\.0000\s+transient: gone$/m);
  expect(stdout).toMatch(/^b\/small\s+2\s+0\s+2,068\s+400\s+\$0\.0300$/m);
});

const calls = [
  { kind: 'approval', id: 'call_1', toolName: 'transfer', args: { amount: 500, to: 'x' }, reason: 'over 100' },
  { kind: 'user_input', id: 'q 1', toolName: 'ask_user', reason: 'Which colour?' },
] as const;

test('a run that waits for people shows what for, and the commands that decide it', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [
    { ...calls[0], approvers: 2, expiresAt: '2099-01-01T00:00:00.000Z' },
    calls[1],
  ]);
  await run.approve({ calls: 'call_1', by: 'kim', reason: 'fine' });
  const { stdout } = await millrace(['get', run.runId], { env: settings(world.prefix) });
  expect(stdout).toContain(`waits for  approval of transfer (call_1): over 100, an answer to q 1: Which colour?`);
  expect(stdout).toContain('arguments  {"amount":500,"to":"x"}');
  expect(stdout).toContain('needs      2 different people');
  expect(stdout).toContain('expires    2099-01-01T00:00:00.000Z');
  expect(stdout).toMatch(/decided {4}transfer \(call_1\) voted on by kim at /);
  for (const way of [`approve ${run.runId} call_1 `, '--args JSON', `approve ${run.runId} 'q 1' --answer TEXT`, 'deny'])
    expect(stdout).toContain(way);
});

test('a call is approved with edited arguments from a file, and a question answered', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, calls);
  const folder = mkdtempSync(join(tmpdir(), 'millrace-args-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'args.json'), '{"amount": 50, "to": []}');
  const env = settings(world.prefix);
  const approve = ['approve', run.runId, 'call_1', '--args', '@args.json', '--by', 'kim', '--reason', 'less'];
  const edited = await millrace(approve, { env, cwd: folder });
  expect([edited.code, edited.stdout]).toEqual([
    0,
    `transfer (call_1) is approved by kim and runs with the new arguments\n${run.runId} goes on; it still waits for an answer to q 1: Which colour?\n`,
  ]);
  const answered = await millrace(['approve', run.runId, '--answer', 'blue', '--by', 'kim', '--json'], { env });
  expect([answered.code, JSON.parse(answered.stdout).run.pending]).toEqual([0, []]);
  const journal = await world.redis.lrange(world.keys.journal(run.runId), 0, -1);
  expect(JSON.parse(journal.at(-1) ?? '')).toMatchObject({
    decisions: [{ granted: true, updatedArgs: { amount: 50, to: [] }, by: ['kim'], reason: 'less' }],
  });
  const opposite = await millrace(['deny', run.runId, 'call_1'], { env });
  expect([opposite.code, opposite.stderr]).toEqual([
    1,
    expect.stringMatching(/^approval_not_pending: call call_1 .* was approved with other arguments by kim at /),
  ]);
});

test('arguments from a file that is not JSON are refused with its name, line and column', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, calls);
  const folder = mkdtempSync(join(tmpdir(), 'millrace-args-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'args.json'), '{\n  "amount": 50,\n  "to" 7\n}');
  const { code, stderr } = await millrace(['approve', run.runId, 'call_1', '--args', '@args.json'], {
    env: settings(world.prefix),
    cwd: folder,
  });
  expect(code).toBe(2);
  expect(stderr).toMatch(/args\.json is not JSON: .*\(line 3 column 8\)/);
});

test('without calls everything is denied, by the user of this machine', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, calls);
  const denied = await millrace(['deny', run.runId, '--reason', 'no'], { env: settings(world.prefix) });
  const { username } = userInfo();
  expect([denied.code, denied.stdout.split('\n')[0]]).toEqual([
    0,
    `transfer (call_1) is denied by ${username}; the model is informed`,
  ]);
  expect((await run.get()).decisions).toMatchObject([
    { granted: false, reason: 'no', by: [username] },
    { toolCallId: 'q 1', granted: false },
  ]);
});

test('a vote that is not enough says what is missing', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [{ ...calls[0], approvers: 2 }]);
  const env = settings(world.prefix);
  const first = await millrace(['approve', run.runId, '--by', 'kim'], { env });
  expect(first.stdout).toContain('1 of 2 people have voted (kim); it needs 2 equal votes');
  const second = await millrace(['approve', run.runId, '--by', 'ada'], { env });
  expect(second.stdout).toBe(`transfer (call_1) is approved by kim and ada and runs\n${run.runId} goes on\n`);
});

test.each([
  ['arguments that are no JSON', ['call_1', '--args', '{'], '--args: is not JSON'],
  ['arguments that are no object', ['call_1', '--args', '[1]'], '--args: must be a JSON object'],
  ['a file that is not there', ['call_1', '--args', '@nowhere.json'], 'nowhere.json cannot be read'],
  ['arguments for several calls', ['call_1', 'call_2', '--args', '{}'], 'arguments need exactly one call'],
  ['an answer for several calls', ['call_1', 'q', '--answer', 'x'], '--answer is for one call'],
  ['an answer and arguments', ['--answer', 'x', '--args', '{}'], 'cannot be given together'],
  ['money for a call', ['call_1', '--top-up', '5'], 'name no calls'],
  ['a credential', ['call_1', '--args', '{"password":"x"}'], 'secret_in_payload'],
])('%s is a usage error', async (_, args, message) => {
  const world = await clientWorld();
  const run = await suspendedRun(world, calls);
  const answer = await millrace(['approve', run.runId, ...args], { env: settings(world.prefix) });
  expect([answer.code, answer.stderr]).toEqual([2, expect.stringContaining(message)]);
  expect((await run.get()).status).toBe('suspended');
});

test('approvals lists what waits, and watches for more', async () => {
  const world = await clientWorld();
  const env = settings(world.prefix);
  const empty = await millrace(['approvals'], { env });
  expect([empty.code, empty.stdout, empty.stderr]).toEqual([0, '', 'Nothing waits for people.\n']);
  const run = await suspendedRun(world, [calls[0]]);
  await suspendedRun(world, [calls[1]], { agent: 'other' });
  const listed = await millrace(['approvals', '--agent', 'support'], { env });
  expect(listed.stdout).toMatch(
    new RegExp(`^${run.runId}  support  approval of transfer \\(call_1\\): over 100  for `),
  );
  expect(listed.stdout).toContain('    {"amount":500,"to":"x"}');
  expect(listed.stdout).not.toContain('Which colour?');
  const json = await millrace(['approvals', '--json'], { env });
  expect(JSON.parse(json.stdout)).toMatchObject([{ toolCallId: 'q 1' }, { toolCallId: 'call_1', runId: run.runId }]);

  const watching = new CliCommand(['approvals', '--follow'], { env });
  await watching.says('Watching');
  await watching.says('transfer (call_1)');
  const later = await suspendedRun(world, [{ ...calls[0], toolName: 'refund' }]);
  await watching.says(`${later.runId}  support  approval of refund`);
  watching.signal('SIGINT');
  expect(await watching.exited).toBe(130);
  expect(watching.stdout.match(/transfer \(call_1\)/g)).toHaveLength(1);
});

test('a person sees what the server of a tool has changed, before and after', async () => {
  const world = await clientWorld();
  const env = settings(world.prefix);
  const said = { description: 'Moves money.', inputSchema: '{"type":"object"}' };
  const after = { description: 'Moves all money.', inputSchema: '{"type":"object","title":"all"}' };
  const toolChange = {
    server: 'bank',
    tool: 'transfer',
    parts: ['description' as const, 'inputSchema' as const],
    before: said,
    after,
    digest: 'a'.repeat(64),
  };
  const run = await suspendedRun(world, [{ ...calls[0], toolChange }]);
  const listed = await millrace(['approvals'], { env });
  expect(listed.stdout).toContain(
    '    changed: description, inputSchema\n    was: Moves money.\n    is now: Moves all money.',
  );
  const got = await millrace(['get', run.runId], { env });
  expect(got.stdout).toMatch(/was +Moves money\..*is now +Moves all money\./s);
  expect(got.stdout).toMatch(/took +\{"type":"object"\}.*takes now +\{"type":"object","title":"all"\}/s);
});

test('a run is left waiting for people when its cancel asks for it', async () => {
  const world = await clientWorld();
  const run = await suspendedRun(world, [calls[0]]);
  const cancelled = await millrace(['cancel', run.runId, '--pending', 'hold'], { env: settings(world.prefix) });
  expect(cancelled.stdout).toBe(`${run.runId} goes on waiting, for approval of transfer (call_1): over 100\n`);
  const failed = await millrace(['cancel', run.runId, '--pending', 'fail'], { env: settings(world.prefix) });
  expect(failed.stdout).toBe(`${run.runId} is failed\n`);
});
