import { expect, test } from 'vitest';
import { silentLog } from '../../../src/shared/base/log.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { from, tool } from '../tools/world.ts';
import { makeJobs } from './job-world.ts';

test('a call goes to the server that the model meant, also where another one has its name by then', async () => {
  const received: string[] = [];
  const server = (name: string) =>
    from(
      name,
      tool('send', () => received.push(name), { trust: 'mcp-derived', effect: 'once' }),
    );
  let servers = [server('docs'), server('files')];
  const openServers = () =>
    Promise.resolve({ tools: () => servers, resultReaders: [], [Symbol.asyncDispose]: async () => {} });
  const agent = defineAgent({
    id: 'clerk',
    model: 'm',
    mcpServers: { docs: { command: 'x', required: false }, files: { command: 'x' } },
    tools: ['mcp:docs', 'mcp:files'],
    toolOptions: { 'mcp:docs/send': { needsApproval: true } },
  });
  const provider = createScriptedProvider(({ messages }) =>
    messages.some(({ role }) => role === 'tool')
      ? { text: 'Done.' }
      : { toolCalls: ['send', 'send'].map((name) => ({ name, args: {} })) },
  );
  const jobs = makeJobs(agent, provider, 1_000, { tools: { log: silentLog, openServers } });
  const runId = jobs.submit({ input: 'go' });
  await jobs.deliver(runId);
  const pending = (await jobs.load(runId))?.pending ?? [];
  expect(pending).toMatchObject([{ toolName: 'send' }, { toolName: 'send' }]);
  // The server of the first call cannot be reached any more, and the other one takes over its name.
  servers = [server('files')];
  jobs.ports.decide(runId, { approvals: pending.map(({ id }) => ({ toolCallId: id, granted: true })) });
  await jobs.deliver(runId);
  expect(received).toEqual([]);
  expect((await jobs.load(runId))?.result?.text).toBe('Done.');
  expect(jobs.eventsOf(runId, 'tool.execute.error')).toMatchObject([
    { error: { kind: 'unknown_tool' } },
    { error: { kind: 'unknown_tool' } },
  ]);
});
