import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { silentLog } from '../../../src/shared/base/log.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import {
  createScriptedProvider,
  type ModelScript,
  type ScriptedAnswer,
} from '../../../src/worker/llm/backends/scripted.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { closesAtLimit } from '../../../src/worker/run/limits.ts';
import { tool } from '../tools/world.ts';
import { makeJobs } from './job-world.ts';

const looks = ({ messages }: LlmRequest): ScriptedAnswer => {
  const isLast = messages.at(-1)?.role === 'user' && messages.length > 2;
  return isLast ? { text: 'What I have.' } : { toolCalls: [{ name: 'look' }] };
};

/** A run whose every call costs all that it may cost: its whole prompt, and the longest answer. */
function makePayer(takesMs = 0, limits: Record<string, number | boolean> = {}) {
  const look = tool('look', () => {
    jobs.clock.jump(takesMs);
    return 'blue '.repeat(300);
  });
  const dear: ModelScript = (request) => {
    const input = Math.ceil(Buffer.byteLength(JSON.stringify(request.messages)) / 4);
    const output = request.maxOutputTokens ?? 4_096;
    return { ...looks(request), usage: { input, output, cached: 0, cacheWrite: 0, total: input + output } };
  };
  const agent = defineAgent({
    id: 'a',
    model: 'gpt-5.2-mini',
    tools: [look],
    limits: { maxSteps: 10, closingAnswer: true, ...limits },
  });
  const jobs = makeJobs(agent, createScriptedProvider(dear), 0);
  return jobs;
}

test('no run spends more than its cap, a run that began ends with an answer, and nothing stays held', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 4_000_000 }), async (maxCostMicrocents) => {
      const jobs = makePayer();
      const runId = jobs.submit({ input: 'go', budget: { maxCostMicrocents } });
      await jobs.deliver(runId);
      const record = await jobs.load(runId);
      expect(record?.costMicrocents).toBeLessThanOrEqual(maxCostMicrocents);
      const reason = expect.any(String) as string;
      const answered = { status: 'completed', result: { text: 'What I have.', incomplete: { reason } } };
      const refused = { status: 'failed', error: { code: 'budget_exceeded' } };
      expect(record).toMatchObject(record?.steps === 0 ? refused : answered);
      const left = maxCostMicrocents - (record?.costMicrocents ?? 0);
      fc.pre(left > 0);
      const run = { capMicrocents: maxCostMicrocents, onExceed: 'fail' as const };
      const accounts = { runId, tenant: record?.tenant ?? '', agentId: 'a', run };
      const all = { provider: 'scripted', model: 'other', wanted: left, least: left, force: false };
      expect(await jobs.ports.ledger.reserve({ accounts, id: 'rest', ...all })).toMatchObject({ amount: left });
    }),
    { numRuns: 40 },
  );
});

test('both ways to end at a budget are met by that', async () => {
  const ends = new Set<string>();
  for (let cap = 50_000; cap <= 8_000_000; cap *= 2) {
    const jobs = makePayer();
    const runId = jobs.submit({ input: 'go', budget: { maxCostMicrocents: cap } });
    await jobs.deliver(runId);
    const record = await jobs.load(runId);
    ends.add(record?.result?.incomplete?.reason ?? record?.error?.code ?? '');
  }
  expect([...ends]).toEqual(expect.arrayContaining(['budget_exceeded', 'budget']));
});

test('the end of the wall time is for the closing call', async () => {
  const jobs = makePayer(4_500, { wallTimeMs: 10_000 });
  const runId = jobs.submit({ input: 'go' });
  await jobs.deliver(runId);
  const record = await jobs.load(runId);
  expect(record).toMatchObject({ status: 'completed', result: { incomplete: { reason: 'wallTimeMs' } } });
  expect(record?.workedMs).toBeLessThan(10_000);
});

test('so is the end of the time before a deadline', async () => {
  const jobs = makePayer(4_500);
  const runId = jobs.submit({ input: 'go', deadlineMs: 10_000 });
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({ result: { incomplete: { reason: 'deadlineMs' } } });
});

test.each([
  ['answers', 'What I have.', 'completed'],
  ['has no last words', '', 'failed'],
])('an agent that a run waits for is stopped when the run ends at its limit and %s', async (_, words, status) => {
  const ask = { id: 'a', name: 'ask_agent', args: { agent: 'poet', message: 'The tide?' } };
  const provider = createScriptedProvider(({ messages }) =>
    messages.length > 2 ? { text: words } : { toolCalls: [ask, { id: 'b', name: 'pay', args: {} }] },
  );
  const pay = tool('pay', () => 'paid', { needsApproval: true });
  const boss = defineAgent({
    id: 'boss',
    model: 'm',
    tools: [pay],
    subagents: ['poet'],
    limits: { closingAnswer: true },
  });
  const agents = new Map(
    [boss, defineAgent({ id: 'poet', model: 'm' })].map((agent) => [agent.definition.id, loadedFrom(agent)]),
  );
  const jobs = makeJobs(boss, provider, 1_000, { agents, tools: { log: silentLog, agents: () => agents } });
  const runId = jobs.submit({ input: 'Pay, and ask.', deadlineMs: 10_000 });
  await jobs.deliver(runId);
  const child = (await jobs.load(runId))?.pending.find(({ kind }) => kind === 'child')?.id ?? '';
  jobs.clock.jump(9_000);
  jobs.ports.decide(runId, { approvals: [{ toolCallId: 'b', granted: false }] });
  await jobs.deliver(runId);
  expect((await jobs.load(runId))?.status).toBe(status);
  await jobs.deliver(child);
  expect((await jobs.load(child))?.status).toBe('cancelled');
});

test('a request decides over its agent', () => {
  const agent = { limits: { closingAnswer: true } };
  expect(closesAtLimit(agent, {})).toBe(true);
  expect(closesAtLimit(agent, { limits: { closingAnswer: false } })).toBe(false);
  expect(closesAtLimit({ limits: {} }, { limits: { closingAnswer: true } })).toBe(true);
  expect(closesAtLimit({ limits: {} }, {})).toBe(false);
});
