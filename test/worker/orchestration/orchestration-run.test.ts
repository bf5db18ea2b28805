import { describe, expect, test } from 'vitest';
import { isTerminalStatus, type RunRequestInput } from '../../../src/shared/contract/run.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent, type Agent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { defineMerge } from '../../../src/worker/agents/define-judge.ts';
import { loadedFrom, type LoadedAgent } from '../../../src/worker/agents/loaded-agent.ts';
import type { NamedFunctions } from '../../../src/worker/agents/load-agents.ts';
import { defineTaskAdapter } from '../../../src/worker/agents/adapter.ts';
import type { RunStore } from '../../../src/shared/state/run/run-store.ts';
import type { CommitReply } from '../../../src/shared/state/run/commit.ts';
import { makeJobs } from '../run/job-world.ts';

type Jobs = ReturnType<typeof makeJobs>;
/** What ends a worker at once. */
const dead = { kind: 'fenced' } as const;

/** Dies at the write with this number, counted over all runs: before it, or after it and before the worker knows. */
function dieAt(jobs: Jobs, number: number, when: 'before' | 'after'): { readonly writes: () => number } {
  const { runs } = jobs.ports;
  let writes = 0;
  const dying = async (write: () => Promise<CommitReply>): Promise<CommitReply> => {
    const isLast = ++writes === number;
    const reply = isLast && when === 'before' ? dead : await write();
    return isLast ? dead : reply;
  };
  const store: RunStore = {
    claim: (...given) => runs.claim(...given),
    load: (runId) => runs.load(runId),
    pendingCancels: () => runs.pendingCancels(),
    commit: (...given) => dying(() => runs.commit(...given)),
    flush: (...given) => dying(() => runs.flush(...given)),
  };
  Object.assign(jobs.ports, { runs: store });
  return { writes: () => writes };
}

/** Takes a run and its children to the end, as a fleet would whose workers die now and then. */
async function toTheEnd(jobs: Jobs, runId: string): Promise<void> {
  for (let tries = 1; tries < 100; tries++) {
    const record = await jobs.load(runId);
    if (!record || isTerminalStatus(record.status)) return;
    if (record.status !== 'suspended') await deliver(jobs, runId, tries);
    else {
      const children = record.pending.filter(({ kind }) => kind === 'child').map(({ id }) => id);
      for (const id of children) await deliver(jobs, id, tries);
      await answerAll(
        jobs,
        runId,
        record.pending.filter(({ kind }) => kind === 'user_input').map(({ id }) => id),
      );
      if (children.length > 0) await jobs.pass(60_001);
    }
  }
  throw new Error('the run does not end');
}

async function deliver(jobs: Jobs, runId: string, tries: number): Promise<void> {
  await jobs.deliver(runId, tries).catch((error: unknown) => expect(error).toMatchObject({ code: 'lock_lost' }));
}

async function answerAll(jobs: Jobs, runId: string, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  jobs.ports.decide(runId, { answers: ids.map((toolCallId) => ({ toolCallId, answer: `about ${toolCallId}` })) });
}

const critic = defineAgent({ id: 'critic', model: 'gpt-5.2' });
const counted = defineMerge({ id: 'counted', merge: (children) => children.map(({ id, output }) => ({ id, output })) });
const charge = { model: 'own', inputTokens: 3, outputTokens: 2, costMicrocents: 70, priced: true, usageReported: true };
const errand = defineTaskAdapter({
  id: 'errand',
  observe: ({ stepNumber }) => ({ stepNumber }),
  validate: () => [{ id: 'well', passed: true }],
  decide({ history, charge: pay }) {
    pay({ type: 'cost.updated', ...charge, cumulativeCostMicrocents: 0 });
    const { length } = history;
    if (length === 1) return { type: 'ask', question: 'Which way?' };
    return length < 3 ? { type: 'act', action: { length } } : { type: 'stop', reason: 'there' };
  },
  act: ({ action }) => action,
  getActionCostUsd: () => 0.000_001,
});
const functions: NamedFunctions = {
  judges: new Map(),
  merges: new Map([['counted', counted]]),
  adapters: new Map([['errand', errand]]),
};

/** Writes better once it is asked to, and gives points to what is. */
const provider = createScriptedProvider(({ model, messages }) => {
  const asked = JSON.stringify(messages.at(-1));
  const points = asked.includes('a better verse') ? { score: 9 } : { score: 3, critique: 'write it better' };
  const verse = asked.includes('write it better') ? 'a better verse' : 'a verse';
  return { text: model === 'gpt-5.2' ? JSON.stringify(points) : verse };
});

function begin(request: Omit<RunRequestInput, 'agent'>, author: Partial<AgentSource> = {}, given = functions) {
  const agents = new Map<string, LoadedAgent>();
  const load = (agent: Agent) => void agents.set(agent.definition.id, loadedFrom(agent));
  const own = defineAgent({ id: 'poet', model: 'gpt-5.2-mini', ...author });
  for (const agent of [own, critic]) load(agent);
  const jobs = makeJobs(own, provider, 1_000, { functions: given, agents });
  return { jobs, runId: jobs.submit(request), load };
}

/** What an orchestration itself has emitted. */
function emittedIn(jobs: Jobs, runId: string): unknown[] {
  return jobs.ports
    .events(runId)
    .filter(({ type }) => /^(agent\.fanout|agent\.evaluator|task|cost)\./.test(type))
    .map(({ v: _v, timestamp: _at, sequenceNumber: _n, jobAttempt: _tries, ...event }) =>
      JSON.parse(JSON.stringify(event).replaceAll(runId, 'the run')),
    );
}

const requests: Record<string, Omit<RunRequestInput, 'agent'>> = {
  'fan-out': {
    input: 'Write about the tide.',
    fanOut: {
      children: [{ agent: 'poet' }, { agent: 'poet', id: 'second' }, { agent: 'poet', id: 'third' }],
      maxConcurrentChildren: 2,
      mergeStrategy: { kind: 'custom', merge: 'counted' },
    },
  },
  'first success': {
    input: 'Write about the tide.',
    fanOut: {
      children: [{ agent: 'poet' }, { agent: 'poet', id: 'second' }, { agent: 'poet', id: 'third' }],
      maxConcurrentChildren: 1,
      mergeStrategy: { kind: 'first-success' },
    },
  },
  'judged fan-out': {
    input: 'Write about the tide.',
    fanOut: {
      children: [{ agent: 'poet' }, { agent: 'critic' }],
      mergeStrategy: { kind: 'judge-merge', judge: 'critic' },
    },
  },
  evaluation: {
    input: 'Write about the tide.',
    evaluate: { generator: 'poet', evaluator: { judge: 'critic', rubric: 'It is good.' }, maxIterations: 3 },
  },
  task: { input: '', taskRun: { adapter: 'errand', limits: { maxSteps: 5 } } },
};

test.each(Object.entries(requests))(
  '%s: a worker that dies at any write changes nothing, and everything is emitted once',
  async (_, request) => {
    const whole = begin(request);
    const { writes } = dieAt(whole.jobs, 0, 'before');
    await toTheEnd(whole.jobs, whole.runId);
    const expected = await whole.jobs.load(whole.runId);
    const emitted = emittedIn(whole.jobs, whole.runId);
    expect(expected?.status).toBe('completed');
    expect(emitted.length).toBeGreaterThan(1);
    for (let number = 1; number <= writes(); number++) {
      for (const when of ['before', 'after'] as const) {
        const { jobs, runId } = begin(request);
        dieAt(jobs, number, when);
        await toTheEnd(jobs, runId);
        const record = await jobs.load(runId);
        const name = `died ${when} write ${number}`;
        expect(record?.status, name).toBe('completed');
        expect(record?.result?.text, name).toEqual(expected?.result?.text);
        expect(record?.costMicrocents, name).toEqual(expected?.costMicrocents);
        expect(emittedIn(jobs, runId), name).toEqual(emitted);
      }
    }
  },
);

test('an evaluation gives the critique to its generator, and ends with the answer that passes', async () => {
  const { jobs, runId } = begin(requests['evaluation'] ?? { input: '' });
  await toTheEnd(jobs, runId);
  const record = await jobs.load(runId);
  expect(record).toMatchObject({
    result: {
      text: 'a better verse',
      output: {
        termination: 'pass',
        best: 2,
        iterations: [
          { output: 'a verse', passed: false, score: 3, critique: 'write it better' },
          { output: 'a better verse', passed: true, score: 9 },
        ],
      },
    },
  });
  expect(record?.costMicrocents).toBe(record?.childCostMicrocents);
  expect(jobs.eventsOf(runId, 'agent.evaluator.converged')).toMatchObject([{ termination: 'pass', iterations: 2 }]);
});

test('a task costs what its adapter charged and what its actions cost, in the record as in its result', async () => {
  const { jobs, runId } = begin(requests['task'] ?? { input: '' });
  await toTheEnd(jobs, runId);
  const record = await jobs.load(runId);
  expect(record).toMatchObject({
    costMicrocents: 4 * 70 + 2 * 100,
    usage: { total: 20, byModel: { own: { attemptCount: 4, costMicrocents: 280 } } },
    result: { text: 'there', output: { status: 'completed', costMicrocents: 480 } },
  });
});

test('the bounds of a task end it, and its run has come to an end all the same', async () => {
  const limits = { maxSteps: 5, maxCostMicrocents: 150 };
  const { jobs, runId } = begin({ input: '', taskRun: { adapter: 'errand', limits } });
  await toTheEnd(jobs, runId);
  expect(await jobs.load(runId)).toMatchObject({
    status: 'completed',
    result: { output: { status: 'failed', stoppedBy: 'budget', completed: false } },
  });
});

describe('what an author gives an orchestration', () => {
  const trio = ['poet', 'second', 'third'].map((id) => ({ agent: 'poet', id }));

  test('a fan-out over more agents than that is refused before any of them is asked', async () => {
    const { jobs, runId } = begin({ input: 'x', fanOut: { children: trio } }, { limits: { maxFanOutChildren: 2 } });
    await jobs.deliver(runId);
    expect(await jobs.load(runId)).toMatchObject({
      status: 'failed',
      error: { code: 'validation', message: expect.stringContaining('agent poet lets a fan-out ask 2 agents') },
      pending: [],
    });
  });

  test('a fan-out that has begun goes on although its author gives less by now, with fewer at a time', async () => {
    const { jobs, runId, load } = begin({ input: 'x', fanOut: { children: trio, maxConcurrentChildren: 2 } });
    const working = async () => (await jobs.load(runId))?.pending.length;
    await jobs.deliver(runId);
    expect(await working()).toBe(2);
    load(
      defineAgent({ id: 'poet', model: 'gpt-5.2-mini', limits: { maxFanOutChildren: 1, maxConcurrentChildren: 1 } }),
    );
    await toTheEnd(jobs, runId);
    expect(await jobs.load(runId)).toMatchObject({ status: 'completed' });
  });

  test('a fan-out asks no more at a time', async () => {
    const fanOut = { children: trio, maxConcurrentChildren: 3 };
    const { jobs, runId } = begin({ input: 'x', fanOut }, { limits: { maxConcurrentChildren: 1 } });
    await jobs.deliver(runId);
    expect((await jobs.load(runId))?.pending).toHaveLength(1);
    await toTheEnd(jobs, runId);
    expect(await jobs.load(runId)).toMatchObject({ status: 'completed' });
  });

  const never = { generator: 'poet', evaluator: { judge: 'critic', rubric: 'x', passScore: 10 } };
  const iterations = (output: unknown) => (output as { iterations: unknown[] }).iterations.length;

  test.for([
    ['applies, whatever it becomes meanwhile', 2, 4, 2],
    ['that becomes less changes nothing for what has begun', undefined, 1, 3],
  ] as const)('a bound of iterations %s', async ([, first, later, made]) => {
    const bound = (maxIterations: number | undefined) => ({
      limits: maxIterations === undefined ? {} : { maxIterations },
    });
    const { jobs, runId, load } = begin({ input: 'x', evaluate: { ...never, maxIterations: 3 } }, bound(first));
    await jobs.deliver(runId);
    load(defineAgent({ id: 'poet', model: 'gpt-5.2-mini', ...bound(later) }));
    await toTheEnd(jobs, runId);
    const { status, result } = (await jobs.load(runId)) ?? {};
    expect(status).toBe('completed');
    expect(result?.output).toMatchObject({ termination: 'maxIterations' });
    expect(iterations(result?.output)).toBe(made);
  });

  test('a worker that dies at any write of a bounded orchestration changes nothing', async () => {
    const request = { input: 'x', evaluate: { ...never, maxIterations: 3 } };
    const author = { limits: { maxIterations: 2 } };
    const whole = begin(request, author);
    const { writes } = dieAt(whole.jobs, 0, 'before');
    await toTheEnd(whole.jobs, whole.runId);
    for (let number = 1; number <= writes(); number++) {
      for (const when of ['before', 'after'] as const) {
        const { jobs, runId } = begin(request, author);
        dieAt(jobs, number, when);
        await toTheEnd(jobs, runId);
        const record = await jobs.load(runId);
        expect(record?.status, `died ${when} write ${number}`).toBe('completed');
        expect(emittedIn(jobs, runId), `died ${when} write ${number}`).toEqual(emittedIn(whole.jobs, whole.runId));
      }
    }
  });

  test('a task makes no more steps, also under an agent of no name', async () => {
    const bounded = defineTaskAdapter({ ...errand, limits: { maxSteps: 2 } });
    const given = { ...functions, adapters: new Map([['errand', bounded]]) };
    const { jobs, runId } = begin(
      { input: '', taskRun: { adapter: 'errand', limits: { maxSteps: 1_000 } } },
      {},
      given,
    );
    await toTheEnd(jobs, runId);
    const output = (await jobs.load(runId))?.result?.output as { steps: unknown[] } | undefined;
    expect(output).toMatchObject({ stoppedBy: 'budget', completed: false });
    expect(output?.steps).toHaveLength(2);
  });

  test('limits of an adapter are checked when it is declared', () => {
    expect(() => defineTaskAdapter({ ...errand, limits: { maxSteps: 0 } })).toThrow('limits.maxSteps');
  });
});

test('a fan-out is worked on twice, however many children it has and however few work at a time', async () => {
  const children = Array.from({ length: 100 }, (_, index) => ({ agent: 'poet', id: `c${index}` }));
  const { jobs, runId } = begin({ input: 'Write.', fanOut: { children, maxConcurrentChildren: 3 } });
  await toTheEnd(jobs, runId);
  const record = await jobs.load(runId);
  expect(record).toMatchObject({ status: 'completed', epoch: 2, resumes: 1 });
  expect(record?.result?.text.split('a verse')).toHaveLength(101);
  expect(record?.costMicrocents).toBe(record?.childCostMicrocents);
});

test('the time of a child begins with its start: that in a queue does not count', async () => {
  const silent = createScriptedProvider(
    (_, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  );
  const jobs = makeJobs(defineAgent({ id: 'poet', model: 'gpt-5.2-mini' }), silent);
  const fanOut = { children: [{ agent: 'poet' }], perBudget: { durationMs: 40 } };
  const runId = jobs.submit({ input: 'Write.', fanOut });
  await jobs.deliver(runId);
  const [child] = (await jobs.load(runId))?.pending ?? [];
  jobs.clock.jump(3_600_000);
  expect(await jobs.ports.waits.due(10), 'no worker looks after its time').toEqual([]);
  const delivered = jobs.deliver(child?.id ?? '');
  await jobs.clock.pass(40);
  await delivered;
  await jobs.deliver(runId);
  const message = 'the child passed its 40 ms';
  expect((await jobs.load(runId))?.result?.output).toMatchObject({
    children: [{ status: 'budget_exceeded', error: { code: 'budget_exceeded', message } }],
  });
});
