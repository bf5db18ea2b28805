import { expect, test } from 'vitest';
import { policyRule } from '../../../src/shared/contract/agent/policy.ts';
import { isTerminalStatus } from '../../../src/shared/contract/run.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { createPolicy } from '../../../src/worker/guards/policy.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { makeJobs } from '../run/job-world.ts';

const provider = createScriptedProvider(({ messages }) => {
  const last = messages.at(-1);
  return { text: `about ${last?.role === 'user' ? last.content : ''}` };
});
const hard = { commands: [], allowInsecure: [], isPrivateHost: () => false };

interface Settings extends Partial<AgentSource> {
  readonly rules: readonly object[];
}

/** A fan-out over two agents, one of which the rules are about. */
function begin({ rules, ...source }: Settings) {
  const boss = defineAgent({ id: 'boss', model: 'm', ...source });
  const agents = new Map(
    [boss, ...['poet', 'spy'].map((id) => defineAgent({ id, model: 'm' }))].map((agent) => [
      agent.definition.id,
      loadedFrom(agent),
    ]),
  );
  let policy = createPolicy(
    rules.map((rule, index) =>
      policyRule.parse({ ruleId: `r${index}`, subjects: ['subagent'], condition: { subagentName: 'spy' }, ...rule }),
    ),
    hard,
  );
  const tools = { log: silentLog, policyOf: () => policy };
  const jobs = makeJobs(boss, provider, 1_000, { agents, tools });
  const children = [{ agent: 'poet' }, { agent: 'spy' }];
  const runId = jobs.submit({
    input: 'the tide',
    fanOut: { children, mergeStrategy: { kind: 'concat', separator: '|' } },
  });
  const dropRules = () => void (policy = createPolicy([], hard));
  return { jobs, runId, dropRules };
}

/** Lets everything happen that needs no person. Answers the record. */
async function settled({ jobs, runId }: ReturnType<typeof begin>) {
  for (let round = 0; round < 10; round++) {
    const record = await jobs.load(runId);
    if (!record) throw new Error('the run is gone');
    if (isTerminalStatus(record.status)) return record;
    if (record.status !== 'suspended') await jobs.deliver(runId);
    const after = await jobs.load(runId);
    const children = (after?.pending ?? []).filter(({ kind }) => kind === 'child').map(({ id }) => id);
    for (const id of children) if (!isTerminalStatus((await jobs.load(id))?.status ?? 'queued')) await jobs.deliver(id);
    if (after?.status === 'suspended' && (await jobs.load(runId))?.status === 'suspended') return after;
  }
  throw new Error('the run does not come to rest');
}

test('a fan-out is not started with an agent that a rule denies', async () => {
  const world = begin({ rules: [{ action: 'deny', reason: 'no spying' }] });
  const record = await settled(world);
  expect(record).toMatchObject({ status: 'failed', error: { code: 'tool_denied' } });
  expect(record.error?.message).toContain('no spying');
  expect(world.jobs.eventsOf(world.runId, 'policy.decision')).toMatchObject([
    { subject: 'subagent', action: 'deny', ruleId: 'r0', subagentName: 'spy' },
  ]);
  expect(world.jobs.eventsOf(world.runId, 'run.suspended')).toEqual([]);
});

test('where a denial is fed back, the other agents answer', async () => {
  const record = await settled(begin({ rules: [{ action: 'deny' }], policyDenial: 'feed_back' }));
  expect(record).toMatchObject({ status: 'completed', result: { text: 'about the tide' } });
  expect(record.result?.output).toMatchObject({
    children: [{ status: 'completed' }, { status: 'failed', error: { code: 'tool_denied' } }],
  });
});

test('an agent that needs an approval begins once it is granted, with what the person has made of it', async () => {
  const world = begin({ rules: [{ action: 'request_approval', reason: 'spying costs' }] });
  const waiting = await settled(world);
  expect(waiting.pending).toMatchObject([
    { kind: 'approval', mode: 'approval', reason: 'spying costs', args: { agentId: 'spy', input: 'the tide' } },
  ]);
  const toolCallId = waiting.pending[0]?.id ?? '';
  // The rules may be gone by then: what was asked is asked.
  world.dropRules();
  world.jobs.ports.decide(world.runId, {
    approvals: [{ toolCallId, granted: true, updatedArgs: { input: 'the moon' } }],
  });
  const record = await settled(world);
  expect(record).toMatchObject({ status: 'completed', result: { text: 'about the tide|about the moon' } });
  expect(world.jobs.eventsOf(world.runId, 'policy.decision')).toHaveLength(1);
});

test.each([
  ['a person', { granted: false, reason: 'no' }, 'no'],
  ['time', undefined, 'expired'],
])('an agent that is not granted by %s is not asked', async (_what, decision, reason) => {
  const world = begin({ rules: [{ action: 'defer' }], approvals: { ttlMs: 5_000, approvers: 1 } });
  const [item] = (await settled(world)).pending;
  if (decision) world.jobs.ports.decide(world.runId, { approvals: [{ toolCallId: item?.id ?? '', ...decision }] });
  else await world.jobs.pass(5_000);
  const record = await settled(world);
  expect(record.result?.output).toMatchObject({
    children: [
      { status: 'completed' },
      { error: { code: 'tool_denied', message: expect.stringContaining(reason) as string } },
    ],
  });
});

test('where a denial degrades, a person who says no ends the run with the reason as its text', async () => {
  const world = begin({ rules: [{ action: 'defer' }], approvalDenial: 'retry_then_degrade' });
  const [item] = (await settled(world)).pending;
  world.jobs.ports.decide(world.runId, { approvals: [{ toolCallId: item?.id ?? '', granted: false, reason: 'no' }] });
  const record = await settled(world);
  expect(record).toMatchObject({
    status: 'degraded',
    result: { text: 'agent spy was not asked: no', finishReason: 'error' },
  });
});

test('a person may give the answer of an agent that a rule defers', async () => {
  const world = begin({ rules: [{ action: 'defer' }] });
  const [item] = (await settled(world)).pending;
  world.jobs.ports.decide(world.runId, { answers: [{ toolCallId: item?.id ?? '', answer: 'seen' }] });
  expect((await settled(world)).result?.text).toBe('about the tide|seen');
});

test('where no person can be asked, what needs a person is denied', async () => {
  const record = await settled(begin({ rules: [{ action: 'request_approval' }], interaction: 'headless' }));
  expect(record.result?.output).toMatchObject({ children: [{ status: 'completed' }, { status: 'failed' }] });
});
