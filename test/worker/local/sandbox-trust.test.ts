import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../../src/worker/index.ts';
import { assertCalled, assertNotCalled, calls, testAgent } from '../../../src/testing/index.ts';

const schema = { inputSchema: z.object({}), execute: () => 'reached' };
const shell = defineTool({ ...schema, name: 'shell', description: 'Runs.', facts: () => ({ command: 'ls' }) });
const post = defineTool({
  ...schema,
  name: 'post',
  description: 'Posts.',
  facts: () => ({ urls: ['https://api.example.org/'] }),
});
const capabilities = {
  reach: () => ({ tools: [shell, post], mcpServers: { web: { command: 'no-such-program', required: true } } }),
};

const run = async (trust: 'sandbox' | 'unrestricted', tool: string) => {
  const agent = defineAgent({ id: 'a', model: 'm', trust, capabilities: ['reach'], policyDenial: 'feed_back' });
  return await testAgent(agent, { model: [calls(tool), 'Done.'], capabilities }).run('Reach out.');
};

test.each(['shell', 'post'])('what a capability brings reaches nothing from a sandbox: %s', async (tool) => {
  const boxed = await run('sandbox', tool);
  assertCalled(boxed, { name: tool, status: 'refused' }, 1);
  assertNotCalled(boxed, tool);
  // Not because the operator's rules are against it, too.
  const decision = boxed.events.find(({ type }) => type === 'policy.decision');
  expect(decision).toMatchObject({ action: 'deny', reason: expect.stringContaining('sandbox') });
});

test('servers that a capability brings are not even started in a sandbox', async () => {
  const boxed = await run('sandbox', 'shell');
  expect(boxed.error?.code).not.toBe('mcp_unavailable');
  expect((await run('unrestricted', 'shell')).error?.code).toBe('mcp_unavailable');
});
