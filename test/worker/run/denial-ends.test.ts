import { expect, test } from 'vitest';
import { z } from 'zod';
import { silentLog } from '../../../src/shared/base/log.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { makeJobs } from './job-world.ts';

const pay = defineTool({
  name: 'pay',
  description: 'Pays.',
  inputSchema: z.object({}),
  effect: 'once',
  needsApproval: true,
  execute: () => 'paid',
});

/** A run that waits for another agent and for a person, who says no. */
async function denied(approvalDenial: 'feed_back' | 'fail' | 'degrade') {
  const provider = createScriptedProvider(({ messages }) =>
    messages.some(({ role }) => role === 'tool')
      ? { text: 'I see.' }
      : {
          toolCalls: [
            { id: 'a', name: 'ask_agent', args: { agent: 'poet', message: 'The tide?' } },
            { id: 'b', name: 'pay', args: {} },
          ],
        },
  );
  const boss = defineAgent({ id: 'boss', model: 'm', tools: [pay], subagents: ['poet'], approvalDenial });
  const poet = defineAgent({ id: 'poet', model: 'm' });
  const agents = new Map([boss, poet].map((agent) => [agent.definition.id, loadedFrom(agent)]));
  const tools = { log: silentLog, agents: () => agents };
  const jobs = makeJobs(boss, provider, 1_000, { agents, tools });
  const runId = jobs.submit({ input: 'Pay, and ask.' });
  await jobs.deliver(runId);
  const { pending = [] } = (await jobs.load(runId)) ?? {};
  jobs.ports.decide(runId, { approvals: [{ toolCallId: 'b', granted: false, reason: 'too much' }] });
  await jobs.deliver(runId);
  const run = await jobs.load(runId);
  const child = pending.find(({ kind }) => kind === 'child')?.id ?? '';
  await jobs.deliver(child);
  return { run, child: await jobs.load(child), jobs, runId };
}

test('a denial ends the run as degraded where its agent is configured so, with the reason as its text', async () => {
  const { run, jobs, runId } = await denied('degrade');
  const text = 'the call of tool pay was denied: too much';
  expect(run).toMatchObject({ status: 'degraded', pending: [], result: { text, finishReason: 'error' } });
  expect(jobs.eventsOf(runId, 'run.completed')).toMatchObject([{ status: 'degraded', result: { text } }]);
  expect(jobs.eventsOf(runId, 'tool.approval.denied')).toMatchObject([{ toolCallId: 'b', reason: 'too much' }]);
});

test.each(['degrade', 'fail'] as const)('the child of a run that a denial ends (%s) is stopped', async (denial) => {
  const { child } = await denied(denial);
  expect(child?.status).toBe('cancelled');
});

test('the child of a run that goes on after a denial goes on, too', async () => {
  const { run, child } = await denied('feed_back');
  expect([run?.status, child?.status]).toEqual(['suspended', 'completed']);
});
