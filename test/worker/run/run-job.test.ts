import type { Artifacts } from '../../../src/shared/state/results/artifacts.ts';
import type { ClaimRequest } from '../../../src/shared/state/run/claim.ts';
import { describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { scriptedModel } from '../../../src/testing/scripted-model.ts';
import { always } from '../../../src/testing/scripts.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { makeJobs } from './job-world.ts';

function makeWorld() {
  const provider = scriptedModel(always('It was sent.'));
  const jobs = makeJobs(defineAgent({ id: 'support', model: 'gpt-5.2-mini' }), provider);
  const observe = vi.spyOn(jobs.ports, 'observe');
  const runId = jobs.submit({ input: 'Where is order 7?' });
  jobs.clock.jump(5);
  const deliver = async (jobTry?: number) => await jobs.deliver(runId, jobTry);
  return { observe, ports: jobs.ports, runId, deliver };
}

test('a run starts, answers and ends, and its start has how long it waited', async () => {
  const { observe, ports, runId, deliver } = makeWorld();
  expect(await deliver()).toEqual({ kind: 'ended', status: 'completed' });
  expect(observe).toHaveBeenCalledWith(
    expect.objectContaining({ type: 'run.started' }),
    expect.objectContaining({ queueWaitMs: 5 }),
  );
  expect(await ports.runs.load(runId)).toMatchObject({
    status: 'completed',
    steps: 1,
    result: { text: 'It was sent.' },
  });
  expect(ports.events(runId).at(-1)?.type).toBe('run.completed');
});

test('a second delivery of a run that has ended does nothing', async () => {
  const { ports, runId, deliver } = makeWorld();
  await deliver();
  const events = ports.events(runId);
  expect(await deliver(2)).toEqual({ kind: 'skipped', reason: 'terminal' });
  expect(ports.events(runId)).toEqual(events);
});

test('a run that another worker left is recovered, and the unfinished step begins anew', async () => {
  const { observe, ports, runId, deliver } = makeWorld();
  const event = { runId, timestamp: new Date().toISOString(), type: 'agent.start' } as const;
  const claim: ClaimRequest = {
    runId,
    owner: 'gone',
    segment: 0,
    jobTry: 1,
    worker: 'dead',
    queue: 'runs',
    crashLimit: 9,
    blameLimit: 9,
    activity: 'idle',
  };
  await ports.runs.claim(claim, [event], [event]);
  expect(await deliver(2)).toEqual({ kind: 'ended', status: 'completed' });
  const types = observe.mock.calls.map(([{ type }]) => type);
  expect(types).toEqual(expect.arrayContaining(['run.recovered', 'step.reset']));
  expect(ports.events(runId)).toContainEqual(
    expect.objectContaining({ type: 'run.recovered', previousWorker: 'dead' }),
  );
});

test('a run that comes to a worker after its time in the queue does not begin, and is left to the deadline watch', async () => {
  const provider = createScriptedProvider(() => ({ text: 'too late' }));
  const jobs = makeJobs(defineAgent({ id: 'a', model: 'm' }), provider);
  const runId = jobs.submit({ input: 'Hi', queueTtlMs: 1_000 });
  jobs.clock.jump(2_000);
  expect(await jobs.deliver(runId)).toEqual({ kind: 'skipped', reason: 'expired' });
  expect(await jobs.load(runId)).toMatchObject({ status: 'queued', epoch: 0 });
  expect(await jobs.ports.deadlines.due(10)).toEqual([runId]);
});

describe('the large results of a run', () => {
  const big = defineTool({
    name: 'big',
    description: 'Big.',
    inputSchema: z.object({}),
    truncationStrategy: 'spill-to-file',
    execute: () => 'x',
  });

  /** A run that its first agent hands off to a second one, of which some may keep results. Returns what was dropped. */
  async function handedOff(keeps: { readonly first: boolean; readonly second: boolean }, isCancelled = false) {
    const dropped: string[] = [];
    const toolsOf = (id: 'first' | 'second') => (keeps[id] ? { tools: [big] } : {});
    const first = defineAgent({ id: 'first', model: 'm', handoffs: ['second'], ...toolsOf('first') });
    const second = defineAgent({ id: 'second', model: 'm', ...toolsOf('second') });
    const provider = createScriptedProvider(({ messages }) =>
      messages.some(({ role }) => role === 'tool')
        ? { text: 'Done.' }
        : { toolCalls: [{ name: 'transfer_to_second', args: {} }] },
    );
    const artifacts = { drop: async (runId: string) => void dropped.push(runId) } as unknown as Artifacts;
    const agents = new Map([first, second].map((agent) => [agent.definition.id, loadedFrom(agent)]));
    const jobs = makeJobs(first, provider, 1_000, {
      agents,
      tools: { log: silentLog, artifacts, agents: () => agents },
    });
    const runId = jobs.submit({ input: 'Hi' });
    if (isCancelled) jobs.ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
    const status = isCancelled ? 'cancelled' : 'completed';
    expect(await jobs.deliver(runId)).toMatchObject({ kind: 'ended', status });
    return dropped.map((id) => (id === runId ? 'its own' : id));
  }

  test.each([
    { first: false, second: true },
    { first: true, second: false },
  ])('are dropped with it, whichever of its agents kept them: %o', async (keeps) => {
    expect(await handedOff(keeps)).toEqual(['its own']);
  });

  test('stay when it was cancelled, and are not looked for where no agent can have kept any', async () => {
    expect(await handedOff({ first: true, second: true }, true)).toEqual([]);
    expect(await handedOff({ first: false, second: false })).toEqual([]);
  });
});
