import { expect, test } from 'vitest';
import { createAskAgentTools } from '../../../../src/worker/tools/builtin/agents.ts';

function schemaFor(count: number): Record<string, unknown> {
  const offered = Array.from({ length: count }, (_, n) => ({ id: `agent-${n}` }));
  const tool = createAskAgentTools(offered).find(({ name }) => name === 'ask_agent');
  const properties = tool?.parameters['properties'] as Record<string, Record<string, unknown>>;
  return properties['agent'] ?? {};
}

test('the model sees whom it may ask, with what the field means', () => {
  expect(schemaFor(2)).toMatchObject({
    enum: ['agent-0', 'agent-1'],
    description: expect.stringContaining('list_agents'),
  });
});

test('of more agents than a schema should hold the model asks for the list', () => {
  expect(schemaFor(32)['enum']).toHaveLength(32);
  expect(schemaFor(33)).not.toHaveProperty('enum');
});
