import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { isTerminal } from '../../../src/shared/contract/event.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { always } from '../../../src/testing/scripts.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { FlushTimer } from '../../../src/worker/run/writer.ts';
import { makeJobs } from './job-world.ts';

async function endOf(script: ModelScript, overrides: { background?: boolean } = {}, cancelled = false) {
  const mcpServers = { files: { command: 'unused' } };
  const agent = defineAgent({ id: 'support', model: 'gpt-5.2-mini', instructions: 'Be brief.', mcpServers });
  const jobs = makeJobs(agent, createScriptedProvider(script));
  const runId = jobs.submit({ input: 'Where is order 7?', overrides });
  if (cancelled) jobs.ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
  await jobs.deliver(runId);
  const events = jobs.ports.events(runId);
  return { events, last: events.slice(events.findIndex(({ type }) => type === 'usage.recorded')) };
}

test('a run that completes emits what it used, then its answer, then its end', async () => {
  const { events, last } = await endOf(always('It was sent.'));
  expect(last.map(({ type }) => type)).toEqual(['usage.recorded', 'agent.response', 'agent.end', 'run.completed']);
  const end = last.at(-1);
  const { usage, costMicrocents } = end as Extract<typeof end, { type: 'run.completed' }>;
  const { durationMs, steps } = end as Extract<typeof end, { type: 'run.completed' }>;
  const counts = { toolCalls: 0, promptChars: 9, mcpServers: 1, capabilities: 0 };
  expect(last[0]).toMatchObject({ usage, costMicrocents, durationMs, steps, ...counts });
  expect(last[1]).toMatchObject({ text: 'It was sent.' });
  expect(events.filter(({ type }) => type === 'usage.recorded')).toHaveLength(1);
});

test('the lock of a thread is counted while its run is on the worker', async () => {
  const changes: number[] = [];
  const threadLocks = (change: 1 | -1) => void changes.push(change);
  const meter = { reserved() {}, spent() {}, unconfirmed() {} };
  const metrics = { money: meter, modelName: (model: string) => model, compacted() {}, threadLocks };
  const agent = defineAgent({ id: 'support', model: 'gpt-5.2-mini' });
  let during: number[] = [];
  const script: ModelScript = () => {
    during = [...changes];
    return { text: 'It was sent.' };
  };
  const jobs = makeJobs(agent, createScriptedProvider(script), 1_000, { metrics });
  await jobs.deliver(jobs.submit({ input: 'Where is order 7?' }));
  expect(changes).toEqual([]);
  await jobs.deliver(jobs.submit({ input: 'Where is order 7?', thread: 'talk' }));
  expect([during, changes]).toEqual([[1], [1, -1]]);
});

test('a run in the background has no response to deliver', async () => {
  const { last } = await endOf(always('It was sent.'), { background: true });
  expect(last.map(({ type }) => type)).toEqual(['usage.recorded', 'agent.end', 'run.completed']);
});

test('a run that fails, and one that is cancelled, emit what they used and have no response', async () => {
  const failed = await endOf(() => ({ error: { kind: 'bad_request' } }));
  expect(failed.last.map(({ type }) => type)).toEqual(['usage.recorded', 'agent.error', 'run.failed']);
  const cancelled = await endOf(always('never'), {}, true);
  expect(cancelled.last.map(({ type }) => type)).toEqual(['usage.recorded', 'agent.end', 'run.cancelled']);
});

test.each<[how: string, script: ModelScript, wallTimeMs?: number]>([
  ['completed', always('It was sent.')],
  ['failed', () => ({ error: { kind: 'bad_request' } })],
  [
    'failed',
    async (_request, signal) => {
      await once(signal, 'abort');
      return { text: 'too late' };
    },
    20,
  ],
  ['cancelled', always('never')],
])(
  'while a run that is to end as %s writes to its thread, its log has no terminal event yet',
  async (how, script, wallTimeMs = 300_000) => {
    const flushTimer = new FlushTimer(5);
    const agent = defineAgent({ id: 'support', model: 'gpt-5.2-mini', limits: { wallTimeMs } });
    const jobs = makeJobs(agent, createScriptedProvider(script), 1_000, { flushTimer });
    const { threads } = jobs.ports;
    const append = threads.append.bind(threads);
    const runId = jobs.submit({ input: 'Where is order 7?', thread: 'talk' });
    let hasEnded: boolean | undefined;
    threads.append = async (lock, op, ...rest) => {
      if (op.endsWith(':end')) {
        await new Promise<void>((flush) => flushTimer.schedule({ flush }));
        await setImmediate();
        hasEnded = jobs.ports.events(runId).some((event) => isTerminal(event) || event.type === 'run.timeout');
      }
      return await append(lock, op, ...rest);
    };
    if (how === 'cancelled') jobs.ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
    const delivered = jobs.deliver(runId);
    if (wallTimeMs < 1_000) await jobs.clock.pass(wallTimeMs);
    await delivered;
    expect(hasEnded).toBe(false);
    expect(jobs.ports.events(runId).filter(isTerminal)).toHaveLength(1);
    expect(await jobs.load(runId)).toMatchObject({ status: how });
  },
);
