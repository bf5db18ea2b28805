import { expect, test } from 'vitest';
import type { RunEvent } from '../../../src/shared/event.ts';
import { isTerminalStatus, type RunRequestInput } from '../../../src/shared/run.ts';
import { createScriptedProvider, scripted } from '../../../src/worker/llm/scripted.ts';
import { defineAgent } from '../../../src/worker/run/define-agent.ts';
import { defineMerge } from '../../../src/worker/run/define-judge.ts';
import type { NamedFunctions } from '../../../src/worker/run/named-functions.ts';
import type { CommitReply, RunStore } from '../../../src/worker/ports.ts';
import { makeJobs } from './job-world.ts';

type Jobs = ReturnType<typeof makeJobs>;
/** What makes a worker let go of everything at once. */
const dead = { kind: 'fenced' } as const;

/** Dies at the write with this number, counted over all runs: before it, or after it and before anybody knows. */
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

/** Takes a run and those below it to the end, as a fleet would whose workers die now and then. */
async function toTheEnd(jobs: Jobs, runId: string): Promise<void> {
  for (let tries = 1; tries < 100; tries++) {
    const record = await jobs.load(runId);
    if (!record || isTerminalStatus(record.status)) return;
    if (record.status !== 'suspended') await deliver(jobs, runId, tries);
    else {
      const below = record.pending.filter(({ kind }) => kind === 'child').map(({ id }) => id);
      for (const id of below) await deliver(jobs, id, tries);
      await answerAll(
        jobs,
        runId,
        record.pending.filter(({ kind }) => kind === 'user_input').map(({ id }) => id),
      );
      if (below.length > 0) await jobs.pass(60_001);
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

const agent = defineAgent({ id: 'poet', model: 'gpt-5.2-mini' });
const counted = defineMerge({ id: 'counted', merge: (children) => children.map(({ id, output }) => ({ id, output })) });
const functions: NamedFunctions = { judges: new Map(), merges: new Map([['counted', counted]]), adapters: new Map() };

function begin(request: Omit<RunRequestInput, 'agent'>) {
  const provider = createScriptedProvider(scripted.text('a verse'));
  const jobs = makeJobs(agent, provider, 1_000, { functions });
  return { jobs, runId: jobs.submit(request) };
}

/** What a program itself has told. */
function toldIn(jobs: Jobs, runId: string): Partial<RunEvent>[] {
  return jobs.ports
    .events(runId)
    .filter(({ type }) => /^(agent\.fanout|agent\.evaluator|task)\./.test(type))
    .map(({ v: _v, timestamp: _at, sequenceNumber: _n, runId: _run, jobAttempt: _tries, ...event }) => event);
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
};

test.each(Object.entries(requests))(
  'a %s whose worker dies at any write ends as if none had, and tells everything once',
  async (_, request) => {
    const whole = begin(request);
    const { writes } = dieAt(whole.jobs, 0, 'before');
    await toTheEnd(whole.jobs, whole.runId);
    const expected = await whole.jobs.load(whole.runId);
    const told = toldIn(whole.jobs, whole.runId);
    expect(expected?.status).toBe('completed');
    expect(told.length).toBeGreaterThan(1);
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
        expect(toldIn(jobs, runId), name).toEqual(told);
      }
    }
  },
);
