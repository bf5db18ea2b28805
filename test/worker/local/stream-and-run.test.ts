import { expect, test } from 'vitest';
import { z } from 'zod';
import { createAgent, defineAgent, defineTool, type RunEvent } from '../../../src/worker/index.ts';
import { calls, fails, FakeClock, scriptedModel, type Answer } from '../../../src/testing/index.ts';

const look = defineTool({ name: 'look', description: 'Looks.', inputSchema: z.object({}), execute: () => 'seen' });
const definition = defineAgent({ id: 'a', model: 'gpt-5.2-mini', tools: [look], retry: { max: 1 } });

async function both(model: readonly Answer[]) {
  const agent = () => createAgent(definition, { provider: scriptedModel(model), clock: new FakeClock(), env: {} });
  const whole = await agent().run('Go.');
  const stream = agent().stream('Go.');
  const events: RunEvent[] = [];
  for await (const event of stream) events.push(event);
  return { whole, streamed: await stream.result, events };
}

test('a run gives in one piece what its events give in many', async () => {
  const { whole, streamed, events } = await both([calls('look'), { text: ['Hel', 'lo.'] }]);
  expect(whole).toEqual({ ...streamed, runId: whole.runId });
  const deltas = events.map((event) => (event.type === 'text.delta' ? event.delta : '')).join('');
  expect([deltas, whole.text, whole.steps]).toEqual(['Hello.', 'Hello.', 2]);
  const { result, usage, costMicrocents, steps } = whole;
  expect(events.at(-1)).toMatchObject({ type: 'run.completed', result, usage, costMicrocents, steps });
  expect(events.map(({ sequenceNumber }) => sequenceNumber)).toEqual(events.map((_event, index) => index + 1));
});

test('a run that fails has the error of its last event, streamed or not', async () => {
  const { whole, streamed, events } = await both([fails('bad_request')]);
  const { code, message } = streamed.error ?? {};
  expect(code).toBe('validation');
  expect(whole).toMatchObject({ status: streamed.status, steps: streamed.steps, error: { code, message } });
  expect(events.at(-1)).toMatchObject({ type: 'run.failed', error: streamed.error });
});
