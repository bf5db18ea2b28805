import { expect, test } from 'vitest';
import { agentDefinition } from '../../../../src/shared/contract/agent/agent.ts';
import { grantsOf, mcpGrantProblems } from '../../../../src/worker/tools/names.ts';

const mcpServers = { files: { command: 'files' }, crm: { url: 'https://crm.example.com/mcp' } };

function problems(tools: readonly string[], more: Readonly<Record<string, unknown>> = {}): string[] {
  return mcpGrantProblems(agentDefinition.parse({ id: 'a', model: 'm', tools, mcpServers, ...more }));
}

test.each([
  [['mcp:files', 'mcp:crm/find', 'lookup_order'], []],
  [['mcp:file'], ['tools: there is no MCP server file; did you mean files?; known are files, crm']],
  [['mcp:toString'], ['tools: there is no MCP server toString; known are files, crm']],
  [['mcp:'], ['tools: mcp: must be mcp:<server> or mcp:<server>/<tool>']],
  [['mcp:files/'], ['tools: mcp:files/ must be mcp:<server> or mcp:<server>/<tool>']],
])('the grants %j have the problems %j', (tools, expected) => {
  expect(problems(tools)).toEqual(expected);
});

test('a server that a capability may bring is no problem', () => {
  expect(problems(['mcp:notes'], { capabilities: ['notes'] })).toEqual([]);
});

test('an agent in its sandbox is granted no server', () => {
  expect(problems(['mcp:files'], { trust: 'sandbox' })).toEqual([
    'tools: mcp:files is not for an agent whose trust is sandbox',
  ]);
});

test('a whole server counts for more than one of its tools', () => {
  const grants = grantsOf({ tools: ['mcp:a/x', 'b', 'mcp:c/y', 'mcp:a', 'mcp:a/z', 'mcp:c/d/e'] });
  expect([...grants]).toEqual([
    ['a', 'all'],
    ['c', new Set(['y', 'd/e'])],
  ]);
});
