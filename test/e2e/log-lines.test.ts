import { expect, test } from 'vitest';
import { planInput } from '../support/plan.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { testRedis, until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';
import type { Child } from '../support/child.ts';

const shared = shareWorld({ producer: true });

type Line = Record<string, unknown>;

/** The lines of a process about a run, above `debug`. */
function linesAbout(child: Child, runId: string): Line[] {
  return child.logLines((line) => line['runId'] === runId && line['level'] !== 'debug');
}

async function linesUntil(child: Child, runId: string, msg: string): Promise<Line[]> {
  await until(`${child.name} writes: ${msg}`, () => linesAbout(child, runId).some((line) => line['msg'] === msg));
  return linesAbout(child, runId);
}

async function submit(body: Record<string, unknown>, requestId: string) {
  const { world } = shared;
  const answer = await fetch(`${world.url}/v1/runs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': requestId },
    body: JSON.stringify(body),
  });
  expect(answer.status).toBe(202);
  const { runId } = (await answer.json()) as { runId: string };
  return { runId, requestId: answer.headers.get('x-request-id') };
}

test('one line says that a run was accepted, one that it started and one how it ended, all with the id of the request', async () => {
  const { world } = shared;
  const input = planInput({ text: 'The parcel of Mrs Canary is on its way.' });
  const { runId, requestId } = await submit({ agent: 'hands', input }, 'ticket-4711');
  expect(requestId).toBe('ticket-4711');
  await world.ended({ runId });
  const whose = { runId, agent: 'hands', tenant: 'default', queue: 'runs', requestId: 'ticket-4711' };

  const accepted = await linesUntil(world.producer, runId, 'run accepted');
  expect(accepted).toEqual([expect.objectContaining({ ...whose, level: 'info', status: 'queued', attached: false })]);
  const lines = await linesUntil(world.worker, runId, 'run ended');
  const worker = expect.stringContaining(`-${world.worker.pid}-`);
  expect(lines).toEqual([
    expect.objectContaining({ ...whose, worker, msg: 'run started', attempt: 1, queueWaitMs: expect.any(Number) }),
    expect.objectContaining({
      ...whose,
      worker,
      msg: 'run ended',
      status: 'completed',
      durationMs: expect.any(Number),
      costMicrocents: expect.any(Number),
      steps: 1,
    }),
  ]);
  expect(JSON.stringify([...accepted, ...lines])).not.toContain('Canary');
});

test('a run that waits says so, and when it goes on', async () => {
  const { world } = shared;
  const input = planInput({ calls: [{ name: 'charge', args: { id: 'g' } }] }, { text: 'Done.' });
  const { runId } = await submit({ agent: 'gated', input }, 'wait-1');
  const suspended = await linesUntil(world.worker, runId, 'run suspended');
  expect(suspended.at(-1)).toMatchObject({ status: 'suspended', reason: 'approval', requestId: 'wait-1', steps: 1 });
  await world.mill.cancel(runId);
  await world.ended({ runId });
});

test('a run that works for another is accepted in one line of the worker that made it, and ended in one of who cancelled it', async () => {
  const { world } = shared;
  const below = planInput({ calls: [{ name: 'charge', args: { id: 'g' } }] }, { text: 'Done.' });
  const input = planInput(
    { calls: [{ name: 'ask_agent', args: { agent: 'gated', message: below } }] },
    { text: 'So.' },
  );
  const { runId } = await submit({ agent: 'asker', input }, 'family-1');
  const whose = { agent: 'gated', tenant: 'default', queue: 'runs', requestId: 'family-1', parentRunId: runId };
  let child = '';
  await until('the child waits for a person', async () => {
    const [found] = (await world.mill.list({ parent: runId })).runs;
    child = found?.runId ?? '';
    return found?.status === 'suspended';
  });
  const worker = expect.stringContaining(`-${world.worker.pid}-`);
  const lines = await linesUntil(world.worker, child, 'run accepted');
  const accepted = lines.filter(({ msg }) => msg === 'run accepted');
  expect(accepted).toEqual([expect.objectContaining({ ...whose, worker, status: 'queued', attached: false })]);

  const answer = await fetch(`${world.url}/v1/runs/${runId}/cancel`, { method: 'POST' });
  expect(answer.status).toBeLessThan(300);
  await world.ended({ runId });
  const ended = (await linesUntil(world.producer, child, 'run ended')).filter(({ msg }) => msg === 'run ended');
  const facts = {
    durationMs: expect.any(Number),
    workedMs: expect.any(Number),
    costMicrocents: expect.any(Number),
    steps: 1,
  };
  expect(ended).toEqual([expect.objectContaining({ ...whose, ...facts, status: 'cancelled' })]);
});

test('a run that ends before a worker begins it has one line of the worker that ended it', async () => {
  const { world } = shared;
  // It existed once: a worker announced it.
  const redis = await testRedis('work', world.fleet.redisUrl);
  await redis.zadd(keysFor(world.fleet.prefix).queues, Date.now(), 'night');
  const body = { agent: 'plain', input: planInput({ text: 'late' }), queue: 'night', queueTtlMs: 300 };
  const { runId } = await submit(body, 'late-1');
  expect((await world.ended({ runId })).view.status).toBe('failed');
  const whose = { agent: 'plain', tenant: 'default', queue: 'night', requestId: 'late-1' };
  const worker = expect.stringContaining(`-${world.worker.pid}-`);
  const facts = {
    status: 'failed',
    code: 'queue_expired',
    durationMs: 0,
    workedMs: 0,
    costMicrocents: 0,
    steps: 0,
  };
  expect(await linesUntil(world.worker, runId, 'run ended')).toEqual([
    expect.objectContaining({ ...whose, worker, ...facts }),
  ]);
});

test('lines about a failing model and a failed run say whose they are', async () => {
  const { world } = shared;
  const faults = Array.from({ length: 9 }, () => ({ kind: 'status' as const, status: 400 }));
  const { runId } = await submit({ agent: 'hands', input: planInput({ text: 'Never.', faults }) }, 'fails-1');
  expect((await world.ended({ runId })).view.status).toBe('failed');
  const lines = await linesUntil(world.worker, runId, 'run ended');
  const whose = { agent: 'hands', tenant: 'default', queue: 'runs', requestId: 'fails-1', worker: expect.any(String) };
  expect(lines.map(({ msg }) => msg)).toEqual(['run started', 'model attempt failed', 'run failed', 'run ended']);
  expect(lines).toEqual(lines.map(() => expect.objectContaining(whose)));
  expect(lines.at(-1)).toMatchObject({ status: 'failed', code: expect.any(String) });
});

test.each(['a b', 'x'.repeat(300), '../../etc'])(
  'a request id of a wrong form is replaced, as %s is',
  async (asked) => {
    const { world } = shared;
    const { runId, requestId } = await submit({ agent: 'hands', input: planInput({ text: 'Hello.' }) }, asked);
    expect(requestId).toMatch(/^[\w.-]{8,128}$/);
    expect(requestId).not.toBe(asked);
    await world.ended({ runId });
    expect((await linesUntil(world.worker, runId, 'run ended')).at(-1)).toMatchObject({ requestId });
  },
);

test('every line of a process is JSON, and every line about a run has its id', async () => {
  const { world } = shared;
  const input = planInput({ calls: [{ name: 'charge', args: { id: 'x' } }] }, { text: 'Done.' });
  const { runId } = await submit({ agent: 'hands', input }, 'lines-1');
  await world.ended({ runId });
  await linesUntil(world.worker, runId, 'run ended');
  for (const child of [world.producer, world.worker]) {
    const lines = child.output.split('\n').slice(0, -1);
    expect(lines.length).toBeGreaterThan(1);
    const parsed = lines.map((line) => JSON.parse(line) as Line);
    const aboutRuns = parsed.filter(({ msg }) => String(msg).startsWith('run '));
    expect(aboutRuns.length).toBeGreaterThan(0);
    for (const line of aboutRuns) expect(line).toMatchObject({ runId: expect.stringMatching(/^[0-9A-Z]{26}$/) });
    for (const line of parsed) expect(line).toMatchObject({ level: expect.any(String), time: expect.anything() });
  }
});
