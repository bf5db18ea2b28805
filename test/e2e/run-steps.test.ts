import { expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { makeWorld, shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

async function waits(run: RunHandle): Promise<void> {
  await until('the run waits', async () => (await run.get()).status === 'suspended');
}

async function archived(run: RunHandle): Promise<void> {
  const { mill } = shared.world;
  await until('the run is archived', async () => (await mill.steps(run.runId)).source === 'archive');
}

test('the steps of a run say what each model was asked, and what became of its calls', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [
    { text: 'I look.', calls: [{ name: 'look', args: { id: 'a', apiKey: 'sk-123456789' } }] },
    { calls: [{ name: 'no_such_tool', args: { id: 'b' } }] },
    { text: 'Done.', faults: [{ kind: 'status', status: 500 }] },
  ]);
  await world.ended(run);
  const then = await until('the definition is kept', async () => (await world.mill.steps(run.runId)).agentThen);
  expect(then.tools.map(({ name }) => name)).toContain('look');
  expect(then.tools[0]).toMatchObject({ description: expect.any(String), parameters: { type: 'object' } });
  const { source: _, ...live } = await world.mill.steps(run.runId);
  await archived(run);
  const { status, body } = await call('GET', `${world.url}/v1/runs/${run.runId}/steps`);
  expect(status).toBe(200);
  expect(body).toEqual(JSON.parse(JSON.stringify({ source: 'archive', ...live })));
  const { steps, initial, segments, truncated } = await world.mill.steps(run.runId);
  expect(truncated).toBeUndefined();
  expect(initial).toMatchObject([{ role: 'user', content: expect.stringContaining('I look.') }]);
  expect((await run.get()).request).toMatchObject({ agent: 'gated', input: expect.stringContaining('I look.') });
  expect(segments).toMatchObject([{ worker: (await run.get()).worker, end: 'ended' }]);
  const [first, second, third] = steps;
  expect(first).toMatchObject({
    stepNumber: 1,
    agent: 'gated',
    answer: { text: 'I look.', finishReason: 'tool_use' },
    request: { added: [] },
    attempts: [{ outcome: 'succeeded' }],
    calls: [
      { toolName: 'look', index: 0, args: { id: 'a' }, argsMasked: true, result: { content: expect.any(String) } },
    ],
  });
  expect(JSON.stringify(body)).not.toContain('sk-123456789');
  expect(first?.calls[0]?.args).toEqual({ id: 'a', apiKey: '[redacted]' });
  const [look] = first?.calls ?? [];
  expect(look?.startedAt && look.endedAt && first?.startedAt && first.firstTokenAt && first.endedAt).toBeTruthy();
  expect(look?.durationMs).toBeGreaterThanOrEqual(0);
  expect(second).toMatchObject({
    request: { added: [{ role: 'tool', toolName: 'look', toolCallId: look?.toolCallId }] },
    calls: [{ toolName: 'no_such_tool', args: { id: 'b' }, error: { kind: 'unknown_tool' } }],
  });
  expect(second?.calls[0]?.error?.message).toMatch(/^there is no such tool/);
  expect(third).toMatchObject({
    request: { added: [{ role: 'tool', isError: true }] },
    answer: { text: 'Done.', finishReason: 'stop' },
    attempts: [{ outcome: 'failed' }, { outcome: 'succeeded' }],
    calls: [],
  });
  const { costMicrocents } = await run.get();
  expect(steps.reduce((sum, step) => sum + step.costMicrocents, 0)).toBe(costMicrocents);
});

test('a run that works shows its steps so far, and the worker that died under it', async () => {
  // A busy machine must not let the lease lapse once more.
  const world = await makeWorld({ env: { LOCK_DURATION_MS: '8000' } });
  const run = await world.submit('gated', [
    { calls: [{ name: 'look', args: { id: 'l', gate: 'steps-gate' } }] },
    { text: 'Seen.' },
  ]);
  await world.toolWorks(run);
  // The tool may be at work before its start is in the log.
  for await (const event of run.events()) if (event.type === 'tool.execute.start') break;
  const working = await world.mill.steps(run.runId);
  expect(working).toMatchObject({
    status: 'running',
    steps: [{ stepNumber: 1, calls: [{ toolName: 'look', args: { id: 'l', gate: 'steps-gate' } }] }],
  });
  expect(working.steps[0]?.calls[0]?.result).toBeUndefined();
  expect(working.segments).toMatchObject([{ worker: (await run.get()).worker }]);
  expect(working.segments[0]?.to).toBeUndefined();
  const { worker: dead } = await run.get();
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  await world.addWorker();
  world.fleet.openGate('steps-gate');
  await world.ended(run);
  const { steps, segments } = await world.mill.steps(run.runId);
  expect(segments).toMatchObject([
    { worker: dead, end: 'lost' },
    { worker: (await run.get()).worker, end: 'ended', recoveredFrom: expect.any(Number) },
  ]);
  expect(segments[1]?.worker).not.toBe(dead);
  expect(steps[0]?.calls).toMatchObject([{ toolName: 'look', starts: 2, result: { content: expect.any(String) } }]);
  expect(steps).toHaveLength(2);
});

test('an approval with edited arguments shows both, who decided, and the wait', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [
    { calls: [{ name: 'charge', args: { id: 'asked' } }] },
    { text: 'It is paid.' },
  ]);
  await waits(run);
  const waiting = await world.mill.steps(run.runId);
  expect(waiting.waits).toMatchObject([
    { reason: 'approval', waitsFor: [{ kind: 'approval', toolName: 'charge' }], by: [] },
  ]);
  expect(waiting.waits[0]?.to).toBeUndefined();
  expect(waiting.segments).toMatchObject([{ end: 'suspended' }]);
  const id = (await run.get()).pending[0]?.toolCallId ?? '';
  const granted = { toolCallId: id, granted: true, reason: 'fine', updatedArgs: { id: 'edited' } };
  await world.mill.decide(run.runId, { approvals: [granted] }, { by: 'ada' });
  await world.ended(run);
  const { steps, waits: ended, segments } = await world.mill.steps(run.runId);
  expect(steps[0]?.calls).toMatchObject([
    {
      args: { id: 'edited' },
      modelArgs: { id: 'asked' },
      decision: { granted: true, by: ['ada'], reason: 'fine', edited: true },
      result: { content: expect.any(String) },
    },
  ]);
  expect(ended).toMatchObject([{ to: expect.any(String), by: ['ada'] }]);
  expect(segments.map(({ end }) => end)).toEqual(['suspended', 'ended']);
});

test('calls of a script are inside their call, with what the script got', async () => {
  const { world } = shared;
  const source = `await tools.charge({ id: 'first' }); await tools.look({ id: 'seen' }); return 'paid';`;
  const run = await world.submit('scripting', [
    { calls: [{ name: 'code_execute', args: { source } }] },
    { text: 'Done.' },
  ]);
  await world.ended(run);
  const { steps } = await world.mill.steps(run.runId);
  expect(steps[0]?.calls).toMatchObject([
    {
      toolName: 'code_execute',
      inner: [
        { toolName: 'charge', args: { id: 'first' }, result: { content: expect.any(String) } },
        { toolName: 'look', args: { id: 'seen' }, result: { content: expect.any(String) } },
      ],
    },
  ]);
  expect(steps[0]?.calls[0]?.inner[0]?.result?.cut).toBeUndefined();
});

test('children and handoffs are where they happened', async () => {
  const { world } = shared;
  const asks = (agent: string, ...plan: object[]) => ({
    calls: [{ name: 'ask_agent', args: { agent, message: JSON.stringify(plan) } }],
  });
  const parent = await world.submit('asker', [asks('plain', { text: 'found' }), { text: 'all done' }]);
  await world.ended(parent);
  const { steps, children } = await world.mill.steps(parent.runId);
  const child = steps[0]?.calls[0]?.childRunId ?? '';
  expect(children).toMatchObject([
    { runId: child, agent: 'plain', status: 'completed', toolCallId: expect.any(String) },
  ]);
  expect(children[0]?.costMicrocents).toBeGreaterThan(0);
  const document = await world.mill.export(parent.runId);
  expect(document).toMatchObject({
    kind: 'millrace.run-export',
    request: { agent: 'asker' },
    children: [{ run: { runId: child, parentRunId: parent.runId } }],
  });

  const to = { name: 'transfer_to_gated', args: { reason: 'it knows better' } };
  const handed = await world.submit('receptionist', [{ calls: [to] }, { text: 'Here I am.' }]);
  await world.ended(handed);
  const after = (await world.mill.steps(handed.runId)).steps;
  expect(after.map(({ agent }) => agent)).toEqual(['receptionist', 'gated']);
  expect(after[1]?.handoff).toEqual({ from: 'receptionist', to: 'gated' });
});

test('what a run did before it was redriven stays in its record', async () => {
  const { world } = shared;
  const { mill } = world;
  const run = await world.submit('gated', [
    { text: 'I look.', calls: [{ name: 'look', args: { id: 'redriven' } }] },
    { text: 'Done.', faults: [{ kind: 'status', status: 400 }] },
  ]);
  await world.ended(run);
  await archived(run);
  const { steps: before, segments: once } = await mill.steps(run.runId);
  expect(before[1]?.attempts).toMatchObject([{ outcome: 'failed', error: expect.anything() }]);
  await mill.redrive({ runId: run.runId });
  expect(await run.result({ waitMs: 30_000 })).toMatchObject({ status: 'completed' });
  const seen = async () => {
    const { steps, segments, waits, truncated } = await mill.steps(run.runId);
    expect(truncated).toBeUndefined();
    // No worker was lost, and no answer of one.
    expect(segments.map(({ recoveredFrom }) => recoveredFrom)).toEqual([undefined, undefined]);
    expect(steps.map(({ resets }) => resets)).toEqual([undefined, undefined]);
    expect(waits).toMatchObject([{ reason: 'redrive', from: once[0]?.to, to: expect.any(String) }]);
    expect(steps[0]).toEqual(before[0]);
    expect(steps[1]?.attempts).toMatchObject([...(before[1]?.attempts ?? []), { outcome: 'succeeded' }]);
    expect(segments).toMatchObject([...once, { end: 'ended' }]);
  };
  await seen();
  await archived(run);
  await seen();
  // Who follows the events gets those of the run since then: they have one end.
  const events = await Array.fromAsync(mill.events(run.runId));
  expect(events.map(({ type }) => type)).not.toContain('run.failed');
  expect(events.find(({ type }) => type === 'run.started')).toMatchObject({ redriven: true, attempt: 2 });
  expect((await mill.export(run.runId)).events.map(({ type }) => type)).toContain('run.failed');
});

test('a run that never began, one that failed and one in a thread have steps as far as they came', async () => {
  const { world } = shared;
  const late = await world.submit('plain', [{ text: 'Never.' }], { delayMs: 3_600_000 });
  await late.cancel();
  expect(await world.mill.steps(late.runId)).toMatchObject({ status: 'cancelled', steps: [], segments: [], waits: [] });
  const faults = Array.from({ length: 20 }, () => ({ kind: 'status', status: 400 }) as const);
  const failed = await world.submit('plain', [{ text: 'No.', faults }]);
  await world.ended(failed);
  const { steps, error } = await world.mill.steps(failed.runId);
  expect(error).toBeDefined();
  expect(steps).toMatchObject([{ stepNumber: 1, attempts: [{ outcome: 'failed' }] }]);
  expect(steps[0]?.answer).toBeUndefined();

  const first = await world.submit('plain', [{ text: 'One.' }], { thread: 'steps-thread' });
  await world.ended(first);
  const second = await world.submit('plain', [{ text: 'Two.' }], { thread: 'steps-thread' });
  await world.ended(second);
  const { initial, steps: own } = await world.mill.steps(second.runId);
  expect(initial.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
  expect(own).toMatchObject([{ answer: { text: 'Two.' } }]);
  expect((await world.mill.steps(first.runId)).initial).toHaveLength(1);
});

test('there are no steps of a run that never was', async () => {
  const { world } = shared;
  const { status, body } = await call('GET', `${world.url}/v1/runs/01K9Z5N3T8R6V2X4B7C1D0E9FG/steps`);
  expect([status, body.error.code]).toEqual([404, 'run_not_found']);
});
