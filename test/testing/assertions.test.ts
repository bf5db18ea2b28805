import { AssertionError } from 'node:assert';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../src/worker/index.ts';
import {
  assertAllAnswered,
  assertCalled,
  assertCalls,
  assertCompleted,
  assertCost,
  assertEvents,
  assertFailed,
  assertNotCalled,
  assertOutput,
  assertSteps,
  assertText,
  assertWaits,
  calls,
  fails,
  saysJson,
  scriptedModel,
  testAgent,
  type Answer,
  type TestAgentOptions,
  type TestRun,
} from '../../src/testing/index.ts';

const tool = (name: string, needsApproval = false) =>
  defineTool({ name, description: name, inputSchema: z.looseObject({}), needsApproval, execute: () => 'ok' });
const agent = defineAgent({ id: 'a', model: 'gpt-5.2-mini', tools: [tool('look'), tool('send'), tool('pay', true)] });

const run = (model: readonly Answer[], options: Partial<TestAgentOptions> = {}) =>
  testAgent(agent, { model, ...options }).run('Go.');

const busy = () => run([calls('look', { at: { id: 7, also: 1 } }), calls('send', { to: ['kim'] }), 'Sent.']);

/** The error of an assertion that must not hold. */
function failure(assertion: () => void): AssertionError {
  try {
    assertion();
  } catch (error) {
    if (error instanceof AssertionError) return error;
    throw error;
  }
  throw new Error('the assertion holds');
}

test('an error says what is wrong, what was expected, and what the run did', async () => {
  const done = await busy();
  const error = failure(() => assertCalls(done, [{ name: 'send', args: { to: ['lee'] } }]));
  expect(error.message).toBe(
    [
      'the run made other calls',
      '  expected: ["send {\\"to\\":[\\"lee\\"]}"]',
      '  actual:   ["look {\\"at\\":{\\"id\\":7,\\"also\\":1}} (done)","send {\\"to\\":[\\"kim\\"]} (done)"]',
      '',
      'The run: completed after 3 steps, $0.000072',
      '  call 1: look {"at":{"id":7,"also":1}} (done)',
      '  call 2: send {"to":["kim"]} (done)',
      '  text: "Sent."',
      '  the model saw last the result of send: ok',
    ].join('\n'),
  );
  expect([error.actual, error.expected]).toEqual([
    ['look {"at":{"id":7,"also":1}} (done)', 'send {"to":["kim"]} (done)'],
    ['send {"to":["lee"]}'],
  ]);
});

test('calls are all of them in their order, with at least these arguments', async () => {
  const done = await busy();
  assertCalls(done, [{ name: 'look', args: { at: { id: 7 } } }, { name: 'send' }]);
  failure(() => assertCalls(done, [{ name: 'look' }]));
  failure(() => assertCalls(done, [{ name: 'send' }, { name: 'look' }]));
  failure(() => assertCalls(done, [{ name: 'look', args: { at: { id: 8 } } }, { name: 'send' }]));
  failure(() => assertCalls(done, [{ name: 'look' }, { name: 'send', args: { to: [] } }]));
  failure(() => assertCalls(done, [{ name: 'look', agent: 'b' }, { name: 'send' }]));
  failure(() => assertCalls(done, []));
});

test('calls among others keep their order', async () => {
  const done = await busy();
  assertCalls(done, [{ name: 'send' }], { among: true });
  assertCalls(done, [{ name: 'look' }, { name: 'send' }], { among: true });
  failure(() => assertCalls(done, [{ name: 'send' }, { name: 'look' }], { among: true }));
});

test('a call is counted, and its arguments may be judged by a function', async () => {
  const done = await run([{ toolCalls: [{ name: 'look' }, { name: 'look', args: { n: 2 } }] }, 'Done.']);
  expect(assertCalled(done, 'look')).toHaveLength(2);
  assertCalled(done, 'look', 2);
  assertCalled(done, { name: 'look', args: ({ n }) => n === 2 }, 1);
  const error = failure(() => assertCalled(done, 'look', 3));
  expect(error.message).toContain('look was to be called 3 times, and was 2 times');
  failure(() => assertCalled(done, 'send'));
  assertNotCalled(done, 'send');
  assertNotCalled(done, { name: 'look', args: { n: 3 } });
  failure(() => assertNotCalled(done, 'look'));
});

test('a call that was refused or waits is no call, unless the test asks for it', async () => {
  const denied = await run([calls('pay'), 'No.'], { people: { pay: { granted: false } } });
  assertCalls(denied, []);
  assertNotCalled(denied, 'pay');
  assertCalled(denied, { name: 'pay', status: 'refused' }, 1);
  const waiting = await run([calls('pay')]);
  assertWaits(waiting);
  assertWaits(waiting, 'pay');
  assertNotCalled(waiting, 'pay');
  assertCalled(waiting, { name: 'pay', status: 'waiting' });
  expect(failure(() => assertWaits(waiting, 'send')).message).toContain('waits for: approval of pay');
  expect(failure(() => assertWaits(denied)).message).toContain('the run does not wait');
});

test('the end of a run is compared with its text or its error', async () => {
  const done = await run(['It was sent.']);
  assertCompleted(done);
  assertCompleted(done, 'It was sent.');
  assertCompleted(done, /sent/);
  assertText(done, /^It/);
  failure(() => assertText(done, 'sent'));
  failure(() => assertCompleted(done, /lost/));
  failure(() => assertFailed(done));
  const failed = await run([fails('auth')]);
  assertFailed(failed);
  assertFailed(failed, 'provider_auth');
  failure(() => assertFailed(failed, 'internal'));
  expect(failure(() => assertCompleted(failed)).message).toContain('error provider_auth: the script answers auth');
});

test('an output is compared as far as it is named', async () => {
  const counting = defineAgent({ id: 'a', model: 'm', outputSchema: z.object({ n: z.number(), of: z.string() }) });
  const done = await testAgent(counting, { model: [saysJson({ n: 1, of: 'x' })] }).run('Go.');
  assertOutput(done, { n: 1 });
  failure(() => assertOutput(done, { n: 2 }));
  failure(() => assertOutput(done, { m: 1 }));
});

test('cost and steps have a bound or a value', async () => {
  const usage = { input: 1_000, output: 0, cached: 0, cacheWrite: 0, total: 1_000 };
  const done = await run([{ text: 'Hi.', usage }]);
  assertCost(done, { microcents: 25_000 });
  assertCost(done, { atMostUsd: 0.000_25, atMostMicrocents: 25_000 });
  const error = failure(() => assertCost(done, { atMostUsd: 0.000_2 }));
  expect(error.message).toContain('the run cost $0.000250, more than $0.000200');
  failure(() => assertCost(done, { atMostMicrocents: 24_999 }));
  failure(() => assertCost(done, { microcents: 24_999 }));
  assertSteps(done, 1);
  assertSteps(done, { atMost: 1 });
  failure(() => assertSteps(done, 2));
  failure(() => assertSteps(done, { atMost: 0 }));
});

test('events are looked for in their order', async () => {
  const done = await busy();
  assertEvents(done, ['run.started', 'tool.execute.end', 'tool.execute.end', 'run.completed']);
  const error = failure(() => assertEvents(done, ['run.completed', 'run.started']));
  expect(error.message).toContain('the run has no event run.started after run.completed');
  failure(() => assertEvents(done, ['run.failed']));
});

test('answers that nothing asked for are an error', async () => {
  const model = scriptedModel(['Hi.', 'Bye.']);
  await testAgent(agent, { model }).run('Go.');
  expect(failure(() => assertAllAnswered(model)).message).toBe('the model has one answer that nothing asked for');
  await testAgent(agent, { model }).run('Go.');
  assertAllAnswered(model);
});

test('a run is plain data for the expectations of a test runner', async () => {
  const done: TestRun = await busy();
  expect(done).toMatchObject({ status: 'completed', calls: [{ name: 'look' }, { name: 'send' }], steps: 3 });
  expect(() => assertCalls(done, [{ name: 'look' }, { name: 'send' }])).not.toThrow();
  expect(() => JSON.stringify(done)).not.toThrow();
});
