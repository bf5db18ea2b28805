import { expect, test } from 'vitest';
import { silentLog } from '../../../src/shared/base/log.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { createCapabilityRegistry, type CapabilityResolver } from '../../../src/worker/tools/capabilities.ts';
import { makeJobs } from './job-world.ts';

/** A worker whose agent `boss` has this capability, and its run. */
function makeBoss(resolver: CapabilityResolver) {
  const provider = createScriptedProvider(({ model, messages }) => {
    if (model === 'poems') return { text: `A poem about ${messages.at(-1)?.role === 'user' ? 'the tide' : '?'}.` };
    return messages.some(({ role }) => role === 'tool')
      ? { text: 'I have it.' }
      : { toolCalls: [{ id: 'a', name: 'poem', args: { input: 'The tide?' } }] };
  });
  const boss = defineAgent({ id: 'boss', model: 'm', capabilities: ['sales'] });
  const poet = defineAgent({ id: 'poet', model: 'poems' });
  const agents = new Map([boss, poet].map((agent) => [agent.definition.id, loadedFrom(agent)]));
  const capabilities = createCapabilityRegistry();
  capabilities.register('sales', resolver);
  const jobs = makeJobs(boss, provider, 1_000, {
    agents,
    tools: { log: silentLog, agents: () => agents, capabilities },
  });
  return { jobs, runId: jobs.submit({ input: 'A poem.' }) };
}

test('a capability may have another agent do a call, in a child run that any worker can take', async () => {
  const depths: number[] = [];
  const { jobs, runId } = makeBoss(({ agentTool, askAgentDepth }) => {
    depths.push(askAgentDepth);
    return { tools: [agentTool('poet', { name: 'poem' })] };
  });
  await jobs.deliver(runId);
  const waiting = await jobs.load(runId);
  expect(waiting).toMatchObject({ status: 'suspended', pending: [{ kind: 'child', toolName: 'poem' }] });
  const child = waiting?.pending?.[0]?.id ?? '';
  await jobs.deliver(child);
  expect(await jobs.load(child)).toMatchObject({
    status: 'completed',
    parent: { runId, depth: 1 },
    result: { text: 'A poem about the tide.' },
  });
  await jobs.deliver(runId);
  expect(await jobs.load(runId)).toMatchObject({ status: 'completed', result: { text: 'I have it.' } });
  expect(jobs.eventsOf(runId, 'tool.execute.end')).toMatchObject([{ outputSummary: 'A poem about the tide.' }]);
  // Asked once for each segment.
  expect(depths).toEqual([0, 0]);
});

test('a capability that asks for an agent that is not there ends the run with the agents that are', async () => {
  const { jobs, runId } = makeBoss(({ agentTool }) => ({ tools: [agentTool('painter')] }));
  await jobs.deliver(runId);
  expect((await jobs.load(runId))?.error).toMatchObject({
    code: 'tool_unavailable',
    message: 'capability sales: there is no agent painter to ask; known are boss, poet',
  });
});
