import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { policyRule, type PolicyRule } from '../../../../src/shared/contract/agent/policy.ts';
import { createPolicy } from '../../../../src/worker/guards/policy.ts';
import type { Ask, StepCall } from '../../../../src/shared/contract/journal/turn-state.ts';
import { createAskAgentTools, createHandoffTool } from '../../../../src/worker/tools/builtin/agents.ts';
import { createAskUser } from '../../../../src/worker/tools/builtin/user.ts';
import { createToolExecutor } from '../../../../src/worker/tools/execute/execute.ts';
import type { BatchEnd } from '../../../../src/worker/tools/execute/run-batch.ts';
import { calls, makeWorld, tool, type World } from '../world.ts';

const people = { isHeadless: false, ttlMs: 60_000, approvers: 1 };
const hard = { commands: [], allowInsecure: [], isPrivateHost: () => false };
const policyOf = (...rules: readonly unknown[]) =>
  createPolicy(
    rules.map((rule): PolicyRule => policyRule.parse(rule)),
    hard,
  );

function suspended(end: BatchEnd): Extract<BatchEnd, { kind: 'suspended' }> {
  if (end.kind !== 'suspended') throw new Error(`it ended as ${end.kind}`);
  return end;
}

/** The call as the journal has it after it was asked about. */
function asked(call: StepCall, ask: Ask | undefined, decision?: StepCall['decision']): StepCall {
  return { ...call, ...(ask && { ask }), ...(decision && { decision }) };
}

const at = '2026-11-01T00:00:00.000Z';
const granted = { kind: 'approval' as const, granted: true, by: ['ada'], at };

describe('a tool that needs an approval', () => {
  const gated = (log: unknown[]) =>
    tool('pay', (args) => log.push(args), {
      needsApproval: true,
      effect: 'once',
      sideEffectClass: 'money',
      sandboxPolicy: 'container',
    });

  test('waits, while the other calls of its step run', async () => {
    const world = makeWorld();
    const [paid, looked]: unknown[][] = [[], []];
    const look = tool('look', () => looked?.push(1));
    const end = suspended(await world.run([gated(paid ?? []), look], calls('look', 'pay', 'look'), {}, { people }));
    expect(paid).toEqual([]);
    expect(looked).toHaveLength(2);
    expect(end).toMatchObject({ reason: 'approval', resumeAtMs: world.clock.now() + 60_000 });
    expect(end.pending).toMatchObject([
      {
        kind: 'approval',
        id: 'call_1',
        toolName: 'pay',
        mode: 'approval',
        classification: { sideEffectClass: 'money', sandboxPolicy: 'container' },
      },
    ]);
    expect(world.eventsOf('tool.approval.requested')).toMatchObject([{ toolCallId: 'call_1', toolName: 'pay' }]);
    expect(world.journal.map((entry) => entry.t)).toEqual(['tool_result', 'tool_result']);
    expect(world.eventsOf('tool.execute.start').map(({ toolName }) => toolName)).toEqual(['look', 'look']);
  });

  async function askedWorld(paid: unknown[]): Promise<{ world: World; ask: Ask | undefined; call: StepCall }> {
    const world = makeWorld();
    const [call] = calls({ name: 'pay', args: '{"amount":5}' });
    if (!call) throw new Error('there is no call');
    const end = suspended(await world.run([gated(paid)], [call], {}, { people }));
    return { world, ask: end.asks[0], call };
  }

  test('runs once it is granted, with its intent before it', async () => {
    const paid: unknown[] = [];
    const { world, ask, call } = await askedWorld(paid);
    const decision = { ...granted, id: ask?.id ?? '' };
    await world.run([gated(paid)], [asked(call, ask, decision)], {}, { people });
    expect(paid).toEqual([{ amount: 5 }]);
    expect(world.journal.map((entry) => entry.t)).toEqual(['tool_intent', 'tool_result']);
    expect(world.eventsOf('tool.approval.granted')).toMatchObject([{ toolCallId: 'call_0', by: 'ada' }]);
  });

  test('goes to the model as denied when a person denies it', async () => {
    const paid: unknown[] = [];
    const { world, ask, call } = await askedWorld(paid);
    const decision = { ...granted, granted: false, reason: 'too much', id: ask?.id ?? '' };
    expect(await world.run([gated(paid)], [asked(call, ask, decision)], {}, { people })).toEqual({ kind: 'done' });
    expect(paid).toEqual([]);
    expect(world.result(0)).toMatchObject({ errorKind: 'approval_denied' });
    expect(world.result(0).content).toContain('too much');
    expect(world.eventsOf('tool.approval.denied')).toMatchObject([{ by: 'ada', reason: 'too much' }]);
  });

  test('ends the run when a person says no and the agent wants that', async () => {
    const { world, ask, call } = await askedWorld([]);
    const decision = { ...granted, granted: false, id: ask?.id ?? '' };
    const denials = { policyDenial: 'fail', approvalDenial: 'fail' } as const;
    const end = await world.run([gated([])], [asked(call, ask, decision)], {}, { people, denials });
    expect(end).toMatchObject({ kind: 'failed', error: { code: 'tool_denied', retryable: false } });
  });

  test('ends the run with the reason as its text where the agent degrades, and no other call of the step is made', async () => {
    const paid: unknown[] = [];
    const looked: unknown[] = [];
    const { world, ask, call } = await askedWorld(paid);
    const [, look] = calls('pay', 'look');
    if (!look) throw new Error('there is no call');
    const decision = { ...granted, granted: false, reason: 'too much', id: ask?.id ?? '' };
    const denials = { policyDenial: 'fail', approvalDenial: 'degrade' } as const;
    const tools = [gated(paid), tool('look', (args) => looked.push(args))];
    const end = await world.run(tools, [asked(call, ask, decision), look], {}, { people, denials });
    expect(end).toEqual({ kind: 'degraded', text: 'the call of tool pay was denied: too much' });
    expect([paid, looked]).toEqual([[], []]);
  });

  test('is denied once its time is up, and not before', async () => {
    const { world, ask, call } = await askedWorld([]);
    const again = suspended(await world.run([gated([])], [asked(call, ask)], {}, { people }));
    expect(again.pending).toMatchObject([{ id: 'call_0', expiresAt: new Date(ask?.expiresAtMs ?? 0).toISOString() }]);
    expect(world.eventsOf('tool.approval.requested')).toHaveLength(1);
    world.clock.jump(60_000);
    await world.run([gated([])], [asked(call, ask)], {}, { people });
    expect(world.result(0)).toMatchObject({ errorKind: 'approval_denied' });
    expect(world.eventsOf('tool.approval.denied')).toMatchObject([{ reason: 'expired' }]);
  });

  test('is denied where no person can be asked', async () => {
    const world = makeWorld();
    expect(await world.run([gated([])], calls('pay'))).toEqual({ kind: 'done' });
    expect(world.result(0)).toMatchObject({ errorKind: 'approval_denied' });
  });

  test('is sent back to the model first when its arguments are wrong', async () => {
    const world = makeWorld();
    const strict = tool('pay', () => 1, { needsApproval: true, inputSchema: z.object({ amount: z.number() }) });
    expect(await world.run([strict], calls('pay'), {}, { people })).toEqual({ kind: 'done' });
    expect(world.result(0)).toMatchObject({ errorKind: 'invalid_input', correctable: true });
    expect(world.eventsOf('tool.approval.requested')).toEqual([]);
  });

  test('has a name of its own in each step, also where the model repeats its ids', async () => {
    const world = makeWorld();
    const end = suspended(
      await world.run([gated([])], calls('pay'), { step: 2, asked: new Set(['call_0']) }, { people }),
    );
    expect(end.pending[0]?.id).toBe('call_0:s2t0');
  });

  test.each([
    ['asks its arguments', (args: { amount?: number }) => (args.amount ?? 0) > 100, '{"amount":101}', 'suspended'],
    ['lets small ones go', (args: { amount?: number }) => (args.amount ?? 0) > 100, '{"amount":99}', 'done'],
    [
      'waits when the check throws',
      () => {
        throw new Error('no');
      },
      '{}',
      'suspended',
    ],
  ])('with a check: %s', async (_what, needsApproval, args, kind) => {
    const world = makeWorld();
    const end = await world.run(
      [tool('pay', () => 1, { needsApproval })],
      calls({ name: 'pay', args }),
      {},
      { people },
    );
    expect(end.kind).toBe(kind);
  });
});

describe('rules', () => {
  const rule = { ruleId: 'r1', condition: { toolName: 'pay' } };

  test('a denied call ends the run before any call of its step starts', async () => {
    const world = makeWorld();
    const ran: string[] = [];
    const tools = [tool('pay', () => ran.push('pay')), tool('look', () => ran.push('look'))];
    const end = await world.run(tools, calls('look', 'pay'), {}, { policy: policyOf({ ...rule, action: 'deny' }) });
    expect(end).toMatchObject({ kind: 'failed', error: { code: 'tool_denied', details: { ruleId: 'r1' } } });
    expect(ran).toEqual([]);
    expect(world.eventsOf('policy.decision')).toMatchObject([
      { subject: 'tool_call', action: 'deny', ruleId: 'r1', toolName: 'pay', toolCallId: 'call_1' },
    ]);
  });

  test('a denied call goes to the model where the agent wants that', async () => {
    const world = makeWorld();
    const policy = policyOf({ ...rule, action: 'deny', reason: 'not on Sundays' });
    const denials = { policyDenial: 'feed_back', approvalDenial: 'feed_back' } as const;
    expect(await world.run([tool('pay', () => 1)], calls('pay'), {}, { policy, denials })).toEqual({
      kind: 'done',
    });
    expect(world.result(0)).toMatchObject({ errorKind: 'capability_blocked' });
    expect(world.result(0).content).toContain('not on Sundays');
  });

  test('a denied call of a tool that needs an approval asks no person', async () => {
    const world = makeWorld();
    const pay = tool('pay', () => 1, { needsApproval: true });
    const end = await world.run([pay], calls('pay'), {}, { people, policy: policyOf({ ...rule, action: 'deny' }) });
    expect(end.kind).toBe('failed');
    expect(world.eventsOf('tool.approval.requested')).toEqual([]);
  });

  test('hard rules that cannot be asked about rewritten arguments deny the call', async () => {
    const world = makeWorld();
    let ran = false;
    const facts = (args: unknown) => {
      if ((args as { dry?: boolean }).dry) throw new Error('the facts are broken');
      return {};
    };
    const pay = tool('pay', () => (ran = true), { facts });
    const policy = policyOf({ ...rule, action: 'allow', updatedToolArgs: { dry: true } });
    const end = await world.run([pay], calls('pay'), {}, { policy });
    expect(end).toMatchObject({ kind: 'failed', error: { code: 'tool_denied' } });
    expect(ran).toBe(false);
    expect(world.eventsOf('policy.decision').at(-1)).toMatchObject({
      action: 'deny',
      reason: 'the rules could not be asked: the facts are broken',
    });
  });

  test('a rule rewrites arguments, and they are checked again', async () => {
    const world = makeWorld();
    const paid: unknown[] = [];
    const pay = tool('pay', (args) => paid.push(args), { inputSchema: z.object({ to: z.string(), dry: z.boolean() }) });
    const call = calls({ name: 'pay', args: '{"to":"ada","dry":false}' });
    await world.run(
      [pay],
      call,
      {},
      { policy: policyOf({ ...rule, action: 'allow', updatedToolArgs: { dry: true } }) },
    );
    expect(paid).toEqual([{ to: 'ada', dry: true }]);
    expect(world.eventsOf('tool.execute.start')).toMatchObject([{ args: { to: 'ada', dry: true } }]);
    await world.run(
      [pay],
      call,
      {},
      { policy: policyOf({ ...rule, action: 'allow', updatedToolArgs: { dry: 'yes' } }) },
    );
    expect(paid).toHaveLength(1);
  });

  test('a deferred call waits for a system outside, whose answer is its result', async () => {
    const world = makeWorld();
    const policy = policyOf({ ...rule, action: 'defer', reason: 'the bank does this' });
    const [call] = calls('pay');
    const end = suspended(await world.run([tool('pay', () => 1)], call ? [call] : [], {}, { people, policy }));
    expect(end.pending).toMatchObject([{ kind: 'approval', mode: 'deferred', reason: 'the bank does this' }]);
    const decision = { kind: 'answer' as const, id: 'call_0', answer: 'paid as no. 7', by: ['bank'], at };
    if (call) await world.run([tool('pay', () => 1)], [asked(call, end.asks[0], decision)], {}, { people, policy });
    expect(world.result(0)).toMatchObject({ content: 'paid as no. 7' });
    expect(world.eventsOf('policy.decision')).toHaveLength(1);
  });

  test('arguments that a rule puts in are checked by the hard rules as well', async () => {
    const world = makeWorld();
    const get = tool('get', () => 1, { facts: ({ url }: { url?: string }) => ({ urls: url ? [url] : [] }) });
    const updatedToolArgs = { url: 'http://shop.example/' };
    const policy = policyOf({ ruleId: 'r1', action: 'allow', updatedToolArgs });
    const call = calls({ name: 'get', args: '{"url":"https://shop.example/"}' });
    expect(await world.run([get], call, {}, { policy })).toMatchObject({
      kind: 'failed',
      error: { code: 'tool_denied', details: { reason: 'insecure_url' } },
    });
    expect(world.eventsOf('policy.decision').map(({ action }) => action)).toEqual(['allow', 'deny']);
  });

  test('rules that cannot be asked refuse', async () => {
    const world = makeWorld();
    const policy = {
      isAbout: () => true,
      isEmpty: false,
      decideHard: () => undefined,
      decide: () => {
        throw new Error('broken');
      },
    };
    expect(await world.run([tool('pay', () => 1)], calls('pay'), {}, { policy })).toMatchObject({
      kind: 'failed',
      error: { code: 'tool_denied' },
    });
  });
});

test('a question to the user waits for the answer, which is its result', async () => {
  const world = makeWorld();
  const [call] = calls({ name: 'ask_user', args: '{"question":"Which one?","choices":["red","blue"]}' });
  const end = suspended(await world.run([createAskUser()], call ? [call] : [], {}, { people }));
  expect(end).toMatchObject({
    reason: 'user_input',
    pending: [{ kind: 'user_input', reason: 'Which one? (red / blue)' }],
  });
  const decision = { kind: 'answer' as const, id: 'call_0', answer: 'blue', by: [], at };
  if (call) await world.run([createAskUser()], [asked(call, end.asks[0], decision)], {}, { people });
  expect(world.result(0)).toMatchObject({ content: 'blue' });
});

test('ends that were emitted before the run waited are not emitted again', async () => {
  const world = makeWorld();
  const done = { name: 'look', status: 'tool_result' as const, result: { content: 'blue' } };
  const [open, emitted, withheld] = calls('look', { ...done, endPublished: true }, done);
  if (open && emitted && withheld) await world.run([tool('look', () => 1)], [open, emitted, withheld], {}, { people });
  expect(world.eventsOf('tool.execute.end').map(({ toolCallId }) => toolCallId)).toEqual(['call_0', 'call_2']);
});

test('only calls that will surely start have their intent recorded with the answer that asks for them', () => {
  const once = { effect: 'once' as const };
  const tools = [
    tool('free', () => 1, once),
    tool('reading', () => 1),
    tool('gated', () => 1, { ...once, needsApproval: true }),
    tool('later', () => 1, { ...once, deferLoading: true }),
    tool('touching', () => 1, { ...once, facts: () => ({}) }),
    createAskUser(),
  ];
  const freely = (policy?: ReturnType<typeof policyOf>) => {
    const context = { runId: 'R', tenant: 'T', keyFor: () => 'k', ...(policy && { policy }) };
    const executor = createToolExecutor(tools, context);
    const asked = calls(...tools.map(({ name }) => name));
    const past = { trusted: [], messages: () => [] };
    return executor.startingFreely({ calls: asked, past, withdrawn: [] }).map(({ name }) => name);
  };
  expect(freely()).toEqual(['free', 'touching']);
  expect(freely(policyOf())).toEqual(['free']);
  expect(freely(policyOf({ ruleId: 'r', action: 'allow' }))).toEqual([]);
});

describe('a rule about sub-agents', () => {
  const askTools = createAskAgentTools([{ id: 'billing' }, { id: 'research' }]);
  const handoff = createHandoffTool('billing', undefined);
  const asksFor = (agent: string) => ({ name: 'ask_agent', args: JSON.stringify({ agent, message: 'go' }) });
  const context = (...rules: readonly object[]) => ({
    people,
    policy: policyOf(...rules.map((rule, index) => ({ ruleId: `r${index}`, subjects: ['subagent'], ...rule }))),
    childIdFor: (step: number, index: number) => `child-${step}-${index}`,
    hasAgent: () => true,
  });
  const billing = { condition: { subagentName: 'billing' } };

  test.each([
    ['asked', asksFor('billing')],
    ['handed over to', { name: 'transfer_to_billing' }],
  ])('denies the agent that is %s, and no other', async (_what, call) => {
    const world = makeWorld();
    const tools = [...askTools, handoff];
    const end = await world.run(tools, calls(call), {}, context({ action: 'deny', ...billing, reason: 'not now' }));
    expect(end).toMatchObject({ kind: 'failed', error: { code: 'tool_denied' } });
    expect(world.eventsOf('policy.decision')).toMatchObject([
      { subject: 'subagent', action: 'deny', ruleId: 'r0', subagentName: 'billing', toolName: call.name },
    ]);
    const other = await world.run(tools, calls(asksFor('research')), {}, context({ action: 'deny', ...billing }));
    expect(suspended(other).children).toMatchObject([{ spec: { agentId: 'research' } }]);
  });

  test.each([{ pattern: 'bil*' }, { toolName: 'ask_agent' }, { hasKeys: ['message'] }, {}])(
    'is found by %j',
    async (condition) => {
      const world = makeWorld();
      const end = await world.run(askTools, calls(asksFor('billing')), {}, context({ action: 'deny', condition }));
      expect(end.kind).toBe('failed');
    },
  );

  test('has people asked before the agent is, also where the call itself is allowed', async () => {
    const rules = [
      { action: 'allow', subjects: ['tool_call'], condition: { toolName: 'ask_agent' }, priority: 900 },
      { action: 'request_approval', ...billing },
    ];
    const world = makeWorld();
    const [call] = calls(asksFor('billing')) as [StepCall];
    const first = suspended(await world.run(askTools, [call], {}, context(...rules)));
    expect(first).toMatchObject({
      reason: 'approval',
      pending: [{ kind: 'approval', toolName: 'ask_agent' }],
      children: [],
    });
    const second = suspended(
      await world.run(askTools, [asked(call, first.asks[0], { ...granted, id: 'call_0' })], {}, context(...rules)),
    );
    expect(second).toMatchObject({ reason: 'child', children: [{ spec: { agentId: 'billing' } }] });
  });

  test('has people asked before the conversation is handed over', async () => {
    const world = makeWorld();
    const rule = { action: 'request_approval', ...billing };
    const [call] = calls('transfer_to_billing') as [StepCall];
    const first = suspended(await world.run([handoff], [call], {}, context(rule)));
    expect(world.journal).toEqual([]);
    await world.run([handoff], [asked(call, first.asks[0], { ...granted, id: 'call_0' })], {}, context(rule));
    expect(world.result(0)).toMatchObject({ handoff: 'billing' });
  });

  test('may rewrite what the agent is asked, and not who is asked', async () => {
    const world = makeWorld();
    const rule = (updatedToolArgs: object) => context({ action: 'allow', ...billing, updatedToolArgs });
    const run = async (args: object) => await world.run(askTools, calls(asksFor('billing')), {}, rule(args));
    expect(suspended(await run({ message: 'politely' })).children).toMatchObject([{ spec: { input: 'politely' } }]);
    expect((await run({ agent: 'research' })).kind).toBe('failed');
  });
});

test.each(['here', 'by a worker that was lost'])(
  'a handoff that is recorded %s emits no event of a tool',
  async (where) => {
    const world = makeWorld();
    const tools = [createHandoffTool('billing', undefined), tool('look', () => 'seen')];
    const recorded = { status: 'tool_result', result: { content: 'It goes on.', handoff: 'billing' } } as const;
    const handoff = { name: 'transfer_to_billing', ...(where === 'here' ? {} : recorded) };
    await world.run(tools, calls(handoff, 'look'), {}, { hasAgent: () => true });
    const ofTools = world.events.filter(({ type }) => type.startsWith('tool.execute'));
    expect(ofTools).toMatchObject([{ toolName: 'look' }, { toolName: 'look' }]);
  },
);
