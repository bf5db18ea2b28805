import { expect, test } from 'vitest';
import { z } from 'zod';
import { createAgent, defineAgent, defineTool, type RunEvent } from '../../../src/worker/index.ts';
import { calls, fails, FakeClock, scriptedModel, type Answer } from '../../../src/testing/index.ts';

const look = defineTool({ name: 'look', description: 'Looks.', inputSchema: z.object({}), execute: () => 'seen' });
const definition = defineAgent({ id: 'a', model: 'gpt-5.2-mini', tools: [look], retry: { max: 1 } });

const answers: readonly [how: string, model: readonly Answer[]][] = [
  ['completes', [calls('look'), { text: ['Hel', 'lo.'] }]],
  ['fails', [fails('bad_request')]],
];

test.each(answers)('a run that %s gives in one piece what its events give in many', async (_, model) => {
  const agent = () => createAgent(definition, { provider: scriptedModel(model), clock: new FakeClock(), env: {} });
  const whole = await agent().run('Go.');
  const stream = agent().stream('Go.');
  const events: RunEvent[] = [];
  for await (const event of stream) events.push(event);
  const { runId, ...streamed } = await stream.result;
  expect(whole).toEqual({ ...streamed, runId: whole.runId });
  expect(runId).toBe(events[0]?.runId);
  const last = events.at(-1);
  if (last?.type === 'run.completed') {
    const deltas = events.map((event) => (event.type === 'text.delta' ? event.delta : '')).join('');
    expect([deltas, last.result.text, last.steps]).toEqual([whole.text, whole.text, whole.steps]);
    expect([last.usage, last.costMicrocents]).toEqual([whole.usage, whole.costMicrocents]);
  } else {
    expect(last).toMatchObject({ type: 'run.failed', error: whole.error, costMicrocents: whole.costMicrocents });
  }
  expect(events.map(({ sequenceNumber }) => sequenceNumber)).toEqual(events.map((_event, index) => index + 1));
});
