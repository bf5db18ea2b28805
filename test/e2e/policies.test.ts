import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import { planInput } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-policies-'));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(
  join(folder, 'policies.yaml'),
  `rules:
  - { ruleId: no-putting, action: deny, condition: { toolName: put }, reason: nothing is put here }
  - { ruleId: bank-first, action: defer, condition: { toolName: charge, contextEquals: { id: big } } }
  - { ruleId: only-mine, action: allow, condition: { pattern: 'lo*' }, updatedToolArgs: { id: mine } }
  - { ruleId: no-asking, action: deny, subjects: [subagent], condition: { subagentName: gated } }
  - { ruleId: ask-plainly, action: request_approval, subjects: [subagent], condition: { subagentName: plain } }
  - { ruleId: no-models, action: deny, subjects: [llm_call], condition: { metadataEquals: { team: none } }, reason: no budget }
`,
);
const shared = shareWorld({ env: { MILLRACE_POLICIES: join(folder, 'policies.yaml') } });

test('a rule that denies ends the run before anything of the step happens', async () => {
  const { world } = shared;
  const run = await world.submit('ruled', [
    {
      calls: [
        { name: 'charge', args: { id: 'small' } },
        { name: 'put', args: { id: 'p' } },
      ],
    },
  ]);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'failed', error: { code: 'tool_denied', retryable: false } });
  expect(observed.view.error?.message).toContain('nothing is put here');
  expect(observed.executions).toEqual([]);
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([
    { action: 'deny', ruleId: 'no-putting', toolName: 'put', reason: 'nothing is put here' },
  ]);
  expect(world.provider.callsOf(run.runId)).toHaveLength(1);
});

test('a rule that defers leaves the call to another process', async () => {
  const { world } = shared;
  const run = await world.submit('ruled', [{ calls: [{ name: 'charge', args: { id: 'big' } }] }, { text: 'Done.' }]);
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  const [item] = (await run.get()).pending;
  expect(item).toMatchObject({ kind: 'approval', mode: 'deferred', toolName: 'charge' });
  await run.answer(item?.toolCallId ?? '', 'the bank has done it');
  const observed = await world.ended(run);
  expect(observed.executions).toEqual([]);
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([{ action: 'defer', ruleId: 'bank-first' }]);
  expect(JSON.stringify(world.provider.callsOf(run.runId).at(-1)?.messages)).toContain('the bank has done it');
});

test('a rule rewrites the arguments of a call', async () => {
  const { world } = shared;
  const run = await world.submit('ruled', [{ calls: [{ name: 'look', args: { id: 'yours' } }] }, { text: 'Seen.' }]);
  const observed = await world.ended(run);
  expect(observed.executions.map(({ tool, id }) => [tool, id])).toEqual([['look', 'mine']]);
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([{ action: 'allow', ruleId: 'only-mine' }]);
});

test('a rule about model calls keeps them from being made', async () => {
  const { world } = shared;
  const run = await world.submit('ruled', [{ text: 'Never sent.' }], { metadata: { team: 'none' } });
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'failed', error: { code: 'policy_denied', message: 'no budget' } });
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([{ subject: 'llm_call', ruleId: 'no-models' }]);
  expect(world.provider.callsOf(run.runId)).toEqual([]);
});

/** The ids of what a run waits for people about. */
async function asked(run: RunHandle): Promise<readonly string[]> {
  await until('the run waits for a person', async () => {
    const { status, pending } = await run.get();
    return status === 'suspended' && pending.some(({ kind }) => kind === 'approval');
  });
  return (await run.get()).pending.filter(({ kind }) => kind === 'approval').map(({ toolCallId = '' }) => toolCallId);
}

describe('a rule about sub-agents', () => {
  const question = (agent: string) => ({ name: 'ask_agent', args: { agent, message: planInput({ text: 'here' }) } });
  const fanOut = (...agents: string[]) => ({
    children: agents.map((agent) => ({ agent, input: planInput({ text: `${agent} is here` }) })),
  });

  test.each([
    ['asked', 'asker', { calls: [question('gated')] }],
    ['handed over to', 'receptionist', { calls: [{ name: 'transfer_to_gated', args: {} }] }],
  ])('keeps an agent from being %s', async (_what, agent, step) => {
    const { world } = shared;
    const observed = await world.ended(await world.submit(agent, [step]));
    expect(observed.view).toMatchObject({ status: 'failed', error: { code: 'tool_denied' } });
    expect(eventsOf(observed, 'policy.decision')).toMatchObject([{ subject: 'subagent', subagentName: 'gated' }]);
    expect((await world.mill.list({ parent: observed.view.runId })).runs).toEqual([]);
  });

  test('keeps a fan-out from starting an agent', async () => {
    const { world } = shared;
    const run = await world.mill.enqueue({ agent: 'asker', input: '', fanOut: fanOut('plain', 'gated') });
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'failed', error: { code: 'tool_denied' } });
    expect((await world.mill.list({ parent: run.runId })).runs).toEqual([]);
  });

  test('has a person decide before an agent is asked', async () => {
    const { world } = shared;
    const run = await world.submit('asker', [{ calls: [question('plain')] }, { text: 'Done.' }]);
    for (const calls of await asked(run)) await run.approve({ calls });
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'Done.' } });
    expect(eventsOf(observed, 'policy.decision')).toMatchObject([
      { action: 'request_approval', ruleId: 'ask-plainly' },
    ]);
  });

  test('has a person decide before a fan-out starts an agent', async () => {
    const { world } = shared;
    const run = await world.mill.enqueue({ agent: 'asker', input: '', fanOut: fanOut('plain', 'plain') });
    const [first = '', second = ''] = await asked(run);
    await run.approve({ calls: first });
    await run.deny({ calls: second, reason: 'one is enough' });
    const observed = await world.ended(run);
    expect(observed.view.result?.output).toMatchObject({
      children: [
        { status: 'completed', output: 'plain is here' },
        { status: 'failed', error: { code: 'tool_denied' } },
      ],
    });
  });
});
