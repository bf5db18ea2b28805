import { expect, test } from 'vitest';
import { nodeConfig, nodeRetry, nodeRetryDelayMs, runNode } from '../../../src/shared/contract/node.ts';

const node = { type: 'agent', id: 'draft', agent_ref: 'writer', prompt_template: 'Write about {{ inputs.topic }}.' };

test.each(['prompt_template', 'system_prompt_append'])('a node whose %s refers to secrets is refused', (field) => {
  const problems = nodeConfig.safeParse({ ...node, [field]: 'Use {{ secrets.token }}.' }).error?.issues;
  expect(problems).toMatchObject([{ path: [field], message: 'must not refer to {{ secrets.* }}' }]);
});

test('a run of a node brings its data along, within bounds, and no agent of its own', () => {
  const { agent_ref: _, ...own } = node;
  expect(runNode.parse({ ...own, inputs: { topic: 'tides' }, outputs: {} })).toMatchObject({
    inputs: { topic: 'tides' },
  });
  expect(runNode.safeParse(node).success).toBe(false);
  expect(runNode.safeParse({ ...own, inputs: { big: 'x'.repeat(300_000) } }).success).toBe(false);
});

test('the waits between tries grow as the node says, up to a day', () => {
  const linear = nodeRetry.parse({ max: 20, backoff: 'linear', backoff_ms: 100 });
  const exponential = nodeRetry.parse({ max: 20, backoff_ms: 100 });
  expect([1, 2, 3, 4].map((n) => nodeRetryDelayMs(linear, n))).toEqual([100, 200, 300, 400]);
  expect([1, 2, 3, 4].map((n) => nodeRetryDelayMs(exponential, n))).toEqual([100, 200, 400, 800]);
  expect(nodeRetryDelayMs(nodeRetry.parse({ max: 20, backoff_ms: 86_400_000 }), 19)).toBe(86_400_000);
});

test('a node is tried again only for errors that a second try may not have', () => {
  expect(nodeRetry.parse({ max: 2 }).retry_on).toContain('provider_unavailable');
  expect(nodeRetry.safeParse({ max: 2, retry_on: ['validation'] }).success).toBe(false);
});
