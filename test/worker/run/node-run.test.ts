import { expect, test } from 'vitest';
import { z } from 'zod';
import { type AgentSource, defineAgent } from '../../../src/worker/agents/define-agent.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import {
  createScriptedProvider,
  type ModelScript,
  type ScriptedAnswer,
} from '../../../src/worker/llm/backends/scripted.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { makeJobs } from './job-world.ts';

const lookWith = (execute: () => unknown) =>
  defineTool({ name: 'look', description: 'Looks.', effect: 'read', inputSchema: z.object({}), execute });
const look = lookWith(() => 'seen');

function makeWorld(script: ModelScript, source: Partial<AgentSource> = {}, maxInlineWaitMs?: number) {
  const requests: LlmRequest[] = [];
  const provider = createScriptedProvider((request, signal) => {
    requests.push(request);
    return script(request, signal);
  });
  const agent = defineAgent({ id: 'writer', model: 'gpt-5.2-mini', instructions: 'Be brief.', ...source });
  return { requests, ...makeJobs(agent, provider, maxInlineWaitMs) };
}

/** Answers one after the other; the last one stays. */
function inTurn(...answers: readonly ScriptedAnswer[]): ModelScript {
  let at = 0;
  return () => answers[Math.min(at++, answers.length - 1)] as ScriptedAnswer;
}

const overloaded = { error: { kind: 'overloaded' as const } };
const node = { type: 'agent', id: 'draft', prompt_template: 'Write about {{ inputs.topic }}, {{ run.outputs.plan }}.' };
const inputs = { topic: 'tides' };
const outputs = { plan: 'in short' };

test('a node run makes its user message from its template and emits its beginning and end', async () => {
  const world = makeWorld(inTurn({ text: 'Done.' }));
  const append = 'Use {{ run.outputs.plan }}.';
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, system_prompt_append: append } });
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  expect(world.requests[0]?.messages).toEqual([
    { role: 'system', content: `Be brief.\n\n${append}` },
    { role: 'user', content: 'Write about tides, in short.' },
  ]);
  const types = world.ports.events(runId).map(({ type }) => type);
  expect(types.slice(0, 4)).toEqual(['run.queued', 'run.started', 'node.started', 'agent.start']);
  expect(types.slice(-3)).toEqual(['agent.end', 'node.completed', 'run.completed']);
  const [completed] = world.eventsOf(runId, 'node.completed');
  const record = await world.load(runId);
  expect(completed).toMatchObject({
    nodeId: 'draft',
    output: 'Done.',
    tokensUsed: { input: record?.usage?.input, output: record?.usage?.output, model: 'gpt-5.2-mini' },
  });
});

test.each([
  ['another type', { ...node, type: 'human_gate' }, 'internal', 'human_gate'],
  ['a value that is missing', { ...node, inputs: {} }, 'validation', 'inputs.topic'],
  [
    'a tool that the agent does not have',
    { ...node, inputs, outputs, tools: ['look', 'delete'] },
    'validation',
    'delete',
  ],
])('a node with %s fails before any model is called', async (_, wrong, code, named) => {
  const world = makeWorld(inTurn({ text: 'Done.' }), { tools: [look] });
  const runId = world.submit({ input: '', node: wrong });
  expect(await world.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  const [failed] = world.eventsOf(runId, 'node.failed');
  expect(failed?.error).toMatchObject({ code, retryable: false, nodeId: 'draft' });
  expect(failed?.error.message).toContain(named);
  expect(world.requests).toEqual([]);
});

test('the model of a node is offered only the tools of the node, and may call no other', async () => {
  const hide = { ...look, name: 'hide' };
  const script = inTurn({ toolCalls: [{ name: 'look' }] }, { toolCalls: [{ name: 'hide' }] });
  const world = makeWorld(script, { tools: [look, hide] });
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, tools: ['look'] } });
  await world.deliver(runId);
  expect(world.requests.map(({ tools }) => tools?.map(({ name }) => name))).toEqual([['look'], ['look']]);
  expect((await world.load(runId))?.error).toMatchObject({
    code: 'tool_denied',
    details: { toolName: 'hide', reason: 'not_granted' },
  });
  expect(world.eventsOf(runId, 'policy.decision')).toMatchObject([
    { subject: 'tool_call', action: 'deny', ruleId: 'not_granted', toolName: 'hide' },
  ]);
});

test.each([
  ['without retries of its own or of the agent', {}, {}, 1],
  ['with the retries of the agent', {}, { retry: { max: 2 } }, 2],
  ['with retries of its own', { retry: { max: 3 } }, {}, 3],
  ['with more retries than those of the agent', { retry: { max: 3 } }, { retry: { max: 2 } }, 2],
  ['that may raise them', { retry: { max: 3 } }, { retry: { max: 2 }, callersMayRaise: ['retry' as const] }, 3],
])('a node %s makes as many attempts', async (_, own, ofAgent: Partial<AgentSource>, attempts) => {
  const world = makeWorld(inTurn(overloaded), ofAgent, 60_000);
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, ...own } });
  expect(await world.deliver(runId)).toMatchObject({ status: 'failed' });
  expect(world.requests).toHaveLength(attempts);
});

test('an output schema of the node has to be met by JSON, of any shape', async () => {
  const output_schema = { type: 'object', required: ['never'] };
  const good = makeWorld(inTurn({ text: '{"a": 1}' }), { outputSchema: { type: 'string' } });
  const runId = good.submit({ input: '', node: { ...node, inputs, outputs, output_schema } });
  await good.deliver(runId);
  expect(good.requests[0]?.responseFormat).toMatchObject({ json_schema: { schema: output_schema } });
  expect(good.eventsOf(runId, 'node.completed')[0]?.output).toEqual({ a: 1 });

  const bad = makeWorld(inTurn({ text: 'hello' }));
  const failed = bad.submit({ input: '', node: { ...node, inputs, outputs, output_schema } });
  await bad.deliver(failed);
  expect((await bad.load(failed))?.error).toMatchObject({ code: 'validation', retryable: false });
});

test('a failing tool ends a node, and is fed back where the agent is configured so', async () => {
  const broken = lookWith(() => Promise.reject(new Error('broken')));
  const script = () => inTurn({ toolCalls: [{ name: 'look' }] }, { text: 'Done.' });
  const strict = makeWorld(script(), { tools: [broken] });
  const failed = strict.submit({ input: '', node: { ...node, inputs, outputs } });
  await strict.deliver(failed);
  expect((await strict.load(failed))?.error).toMatchObject({ code: 'tool_failed' });

  const lenient = makeWorld(script(), { tools: [broken], toolFailure: 'feed_back' });
  const runId = lenient.submit({ input: '', node: { ...node, inputs, outputs } });
  await lenient.deliver(runId);
  expect((await lenient.load(runId))?.status).toBe('completed');
});

test('a node that fails is tried again as a whole after growing waits, with a fresh chain each time', async () => {
  const world = makeWorld(inTurn(overloaded, overloaded, { text: 'Done.' }));
  const nodeRetry = { max: 3, backoff: 'linear' as const, backoff_ms: 5_000 };
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, nodeRetry } });
  expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  expect(await world.load(runId)).toMatchObject({ status: 'suspended', pending: [{ kind: 'retry', id: 'draft' }] });
  expect(await world.pass(4_999)).toEqual([]);
  expect(await world.pass(1)).toEqual([runId]);
  expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  expect(await world.pass(9_999)).toEqual([]);
  expect(await world.pass(1)).toEqual([runId]);
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  expect(world.eventsOf(runId, 'node.retrying')).toMatchObject([
    { attemptNumber: 1, delayMs: 5_000, error: { code: 'provider_unavailable' } },
    { attemptNumber: 2, delayMs: 10_000, error: { code: 'provider_unavailable' } },
  ]);
  expect(world.eventsOf(runId, 'node.failed')).toEqual([]);
  expect(world.requests).toHaveLength(3);
});

test('a node is tried no more often, and waits no longer, than its agent allows', async () => {
  const limits = { maxNodeTries: 2, maxNodeBackoffMs: 3_000 };
  const world = makeWorld(inTurn(overloaded), { limits });
  const nodeRetry = { max: 20, backoff_ms: 86_400_000 };
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, nodeRetry } });
  expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  expect(await world.pass(3_000)).toEqual([runId]);
  expect(await world.deliver(runId)).toMatchObject({ status: 'failed' });
  expect(world.requests).toHaveLength(2);
});

test('each try of a node has all the attempts that its models get', async () => {
  const world = makeWorld(inTurn(overloaded));
  const more = { retry: { max: 2 }, nodeRetry: { max: 2, backoff_ms: 0 } };
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, ...more } });
  expect(await world.deliver(runId)).toMatchObject({ status: 'failed' });
  expect(world.requests).toHaveLength(4);
});

test('a node that is cancelled emits that once, and no failure', async () => {
  const world = makeWorld(inTurn(overloaded));
  const nodeRetry = { max: 2, backoff_ms: 60_000 };
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, nodeRetry } });
  expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  world.ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
  await world.ports.waits.resume(runId, { summary: 'a cancel was asked for' });
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'cancelled' });
  expect(world.requests).toHaveLength(1);
  expect(world.eventsOf(runId, 'node.failed')).toEqual([]);
  expect(world.eventsOf(runId, 'run.cancelled')).toHaveLength(1);
});

test('a worker that recovers a node in the middle of a wait waits for the rest of it', async () => {
  const world = makeWorld(inTurn(overloaded, { text: 'Done.' }));
  const nodeRetry = { max: 2, backoff_ms: 60_000 };
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, nodeRetry } });
  await world.deliver(runId);
  await world.pass(20_000);
  await world.ports.waits.resume(runId, { summary: 'by mistake' });
  expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  expect(await world.pass(39_999)).toEqual([]);
  expect(await world.pass(1)).toEqual([runId]);
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
});

test('a short wait before the next try keeps the worker', async () => {
  const world = makeWorld(inTurn(overloaded, { text: 'Done.' }));
  const nodeRetry = { max: 2, backoff_ms: 700 };
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, nodeRetry } });
  const outcome = world.deliver(runId);
  await world.clock.pass(700);
  expect(await outcome).toEqual({ kind: 'ended', status: 'completed' });
  expect(world.eventsOf(runId, 'run.suspended')).toEqual([]);
});

test.each([
  ['its tries are used up', { max: 2, backoff_ms: 0 }, 2],
  ['it is not asked to for this error', { max: 5, backoff_ms: 0, retry_on: ['tool_failed' as const] }, 1],
])('a node fails once %s', async (_, nodeRetry, calls) => {
  const world = makeWorld(inTurn(overloaded));
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, nodeRetry } });
  expect(await world.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  expect(world.requests).toHaveLength(calls);
  expect(world.eventsOf(runId, 'node.retrying')).toHaveLength(calls - 1);
  expect(world.eventsOf(runId, 'node.failed')).toHaveLength(1);
});

test('what a node has finished stays when it is tried again: answers, and results of tools that worked', async () => {
  let lookUps = 0;
  let pushes = 0;
  const keys: string[] = [];
  const counted = lookWith(() => `seen ${++lookUps}`);
  const push = defineTool({
    name: 'push',
    description: 'Pushes.',
    inputSchema: z.object({}),
    execute: (_args, { idempotencyKey }) => {
      keys.push(idempotencyKey);
      if (++pushes < 3) throw new Error('stuck');
      return 'pushed';
    },
  });
  const script = inTurn({ toolCalls: [{ name: 'look' }, { name: 'push' }] }, overloaded, { text: 'Done.' });
  const world = makeWorld(script, { tools: [counted, push] });
  const nodeRetry = { max: 5, backoff_ms: 0 };
  const runId = world.submit({ input: '', node: { ...node, inputs, outputs, nodeRetry } });
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  expect([lookUps, pushes, new Set(keys).size]).toEqual([1, 3, 1]);
  expect(world.eventsOf(runId, 'node.retrying').map(({ error }) => error.code)).toEqual([
    'tool_failed',
    'tool_failed',
    'provider_unavailable',
  ]);
  // The first answer was asked for once; what followed it is what the last model call saw.
  expect(world.requests).toHaveLength(3);
  expect(world.requests[2]?.messages.filter(({ role }) => role === 'tool')).toMatchObject([
    { content: 'seen 1' },
    { content: 'pushed' },
  ]);
});

test('instructions of an agent that refer to secrets are refused when it is defined', () => {
  const define = () => defineAgent({ id: 'writer', model: 'm', instructions: 'Use {{ secrets.key }}.' });
  expect(define).toThrow('must not refer to {{ secrets.* }}');
});
