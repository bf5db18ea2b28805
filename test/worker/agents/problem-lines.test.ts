import { expect, test } from 'vitest';
import { linesInYaml, syntaxProblems } from '../../../src/worker/agents/problem-lines.ts';

const text = `# An agent.
model: gpt-5.2-mini
modle: other
instructions: |
  Look up lookup_order first.
tools:
  - lookup_order
  - lookup_ordr
limits:
  maxSteps: -1
  maxSeconds: 2
toolOptions:
  mcp:docs/read: { needsApproval: true }
skills: [first, refund]
`;

test.each([
  ['modle: is not a known field; did you mean model?', 3],
  ['limits.maxSteps: must be at least 1', 10],
  ['limits.maxSeconds: is not a known field', 11],
  ['tools.1: is not a name', 8],
  ['there is no tool lookup_ordr; known are lookup_order', 8],
  ['toolOptions.mcp:docs/read: the agent is granted no MCP server docs', 13],
  ['there is no skill refund; did you mean first?; known are first', 14],
  ['skills: there is no agent first; known are refund', 14],
  ['there is no first; known are refund', undefined],
  ['budget: is needed', undefined],
  ['the worker has no provider', undefined],
])('the line of `%s` is %s', (problem, line) => {
  expect(linesInYaml(text)(problem)).toBe(line);
});

test('what is wrong with the syntax has a line', () => {
  const broken = 'model: x\ntools: [a\nlimits: b: c\n';
  const problems = syntaxProblems(broken);
  expect(problems.length).toBeGreaterThan(0);
  expect(problems.map(linesInYaml(broken)).every((line) => line === 2 || line === 3)).toBe(true);
});
