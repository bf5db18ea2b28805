import { expect, test } from 'vitest';
import { z } from 'zod';
import { viewOf, type RunRecord } from '../../../src/shared/contract/run.ts';
import type { RunStore } from '../../../src/shared/state/run/run-store.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { defineTaskAdapter } from '../../../src/worker/agents/adapter.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { makeJobs } from './job-world.ts';

const limits = { wallTimeMs: 10_000 };
const hourMs = 3_600_000;

/** An agent that calls a tool once and then answers; the tool takes as long as the test sets. */
function makeWorld({ takesMs = 0 }: { readonly takesMs?: number } = {}) {
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    effect: 'read',
    inputSchema: z.object({}),
    execute: () => {
      jobs.clock.jump(takesMs);
      return 'seen';
    },
  });
  const provider = createScriptedProvider(({ messages }) =>
    messages.at(-1)?.role === 'tool' ? { text: 'done' } : { toolCalls: [{ name: 'look', args: {} }] },
  );
  const adapter = defineTaskAdapter({
    id: 'walk',
    observe: () => ({}),
    validate: () => [{ id: 'well', passed: true }],
    decide: ({ history }) => (history.length < 2 ? { type: 'act', action: {} } : { type: 'stop', reason: 'there' }),
    act: () => {
      jobs.clock.jump(takesMs);
      return {};
    },
  });
  const functions = { judges: new Map(), merges: new Map(), adapters: new Map([['walk', adapter]]) };
  const jobs = makeJobs(defineAgent({ id: 'writer', model: 'gpt-5.2-mini', tools: [look] }), provider, 1_000, {
    functions,
  });
  return jobs;
}

type World = ReturnType<typeof makeWorld>;

/** The worker dies at its write with this number: neither it nor anything after it reaches the store. */
function dieAt(world: World, number: number): { revive(): void } {
  const { runs } = world.ports;
  let writes = 0;
  const store: RunStore = {
    claim: (...given) => runs.claim(...given),
    load: (runId) => runs.load(runId),
    pendingCancels: () => runs.pendingCancels(),
    commit: async (...given) => (++writes >= number ? { kind: 'fenced' } : await runs.commit(...given)),
    flush: async (...given) => await runs.flush(...given),
  };
  Object.assign(world.ports, { runs: store });
  return { revive: () => void Object.assign(world.ports, { runs }) };
}

async function crash(world: World, runId: string, atCommit: number): Promise<void> {
  const dead = dieAt(world, atCommit);
  await expect(world.deliver(runId)).rejects.toMatchObject({ code: 'lock_lost' });
  dead.revive();
}

test('a run without a worker since its first one died is not timed out for that', async () => {
  const world = makeWorld();
  const runId = world.submit({ input: 'Go.', limits });
  await crash(world, runId, 2);
  world.clock.jump(hourMs);
  expect(await world.deliver(runId, 2)).toEqual({ kind: 'ended', status: 'completed' });
});

test('the time that earlier workers are known to have worked counts on every worker', async () => {
  const world = makeWorld({ takesMs: 12_000 });
  const runId = world.submit({ input: 'Go.', limits });
  // The result of the tool is the second commit: with it the record knows of the 12 seconds.
  await crash(world, runId, 3);
  expect((await world.load(runId))?.workedMs).toBe(12_000);
  expect(await world.deliver(runId, 2)).toEqual(
    expect.objectContaining({
      kind: 'ended',
      status: 'failed',
      error: expect.objectContaining({ code: 'run_timeout' }),
    }),
  );
  expect(world.eventsOf(runId, 'run.timeout')[0]).toMatchObject({ elapsedMs: 12_000, timeoutMs: 10_000 });
});

test('a task is not charged the time in which no worker had it', async () => {
  const world = makeWorld({ takesMs: 1_000 });
  const runId = world.submit({ input: '', limits, taskRun: { adapter: 'walk', limits: { maxWallMs: 10_000 } } });
  await crash(world, runId, 6);
  world.clock.jump(hourMs);
  expect(await world.deliver(runId, 2)).toEqual({ kind: 'ended', status: 'completed' });
  const output = (await world.load(runId))?.result?.output as { readonly wallMs: number };
  expect(output.wallMs).toBeLessThanOrEqual(3_000);
  expect(output.wallMs).toBeGreaterThanOrEqual(2_000);
});

test('a run past its deadline ends, wherever its time went, and its error has the deadline', async () => {
  const world = makeWorld({ takesMs: 1_000 });
  const runId = world.submit({ input: 'Go.', deadlineMs: 60_000 });
  await crash(world, runId, 2);
  world.clock.jump(hourMs);
  await world.deliver(runId, 2);
  const record = await world.load(runId);
  expect(record).toMatchObject({ status: 'failed', error: { code: 'deadline_exceeded', retryable: false } });
  const dueAt = new Date(Date.parse(record?.createdAt ?? '') + 60_000).toISOString();
  expect(record?.error?.message).toContain(dueAt);
});

test('the earlier deadline holds, the request’s or the agent’s', async () => {
  const deadlines = async (ofAgentMs: number, ofRequestMs: number) => {
    const agent = defineAgent({ id: 'writer', model: 'gpt-5.2-mini', limits: { deadlineMs: ofAgentMs } });
    const world = makeJobs(
      agent,
      createScriptedProvider(() => ({ text: 'done' })),
    );
    const runId = world.submit({ input: 'Go.', deadlineMs: ofRequestMs });
    const { createdAt = '' } = (await world.load(runId)) ?? {};
    await world.deliver(runId);
    const view = viewOf((await world.load(runId)) as RunRecord);
    return Date.parse(view.deadlineAt ?? '') - Date.parse(createdAt);
  };
  const farMs = 200 * 24 * hourMs;
  expect(await deadlines(farMs, farMs + 1)).toBe(farMs);
  expect(await deadlines(farMs + 1, farMs)).toBe(farMs);
});

test('the deadline of an agent outlives the worker that was lost before it wrote it down', async () => {
  const agent = defineAgent({ id: 'writer', model: 'gpt-5.2-mini', limits: { deadlineMs: 60_000 } });
  const world = makeJobs(
    agent,
    createScriptedProvider(() => ({ text: 'done' })),
  );
  const runId = world.submit({ input: 'Go.' });
  await crash(world, runId, 1);
  expect((await world.load(runId))?.deadlineAt).toBeUndefined();
  await world.deliver(runId, 2);
  const record = await world.load(runId);
  expect(record?.deadlineAt).toBe(new Date(Date.parse(record?.createdAt ?? '') + 60_000).toISOString());
});
