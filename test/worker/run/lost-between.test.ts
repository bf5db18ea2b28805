import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import { isTerminalStatus } from '../../../src/shared/contract/run.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import type { RunStore } from '../../../src/shared/state/run/run-store.ts';
import { createAgentTool } from '../../../src/worker/agents/agent-tool.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { FlushTimer } from '../../../src/worker/run/writer.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import type { Tool } from '../../../src/worker/tools/tool.ts';
import { makeJobs } from './job-world.ts';

/** Writes every event as early as it may: one that can be written without its entry is. */
class EagerTimer extends FlushTimer {
  override schedule(target: { flush(): void }): void {
    queueMicrotask(() => target.flush());
  }
}

/** A store for which a worker has lost its run when it comes to one of these writes. */
function losing(runs: RunStore, lostAt: readonly number[]) {
  let writes = 0;
  const deposed = new Set<string>();
  const commit = runs.commit.bind(runs);
  const flush = runs.flush.bind(runs);
  const may = async (owner: string) => {
    await setImmediate();
    if (!deposed.has(owner) && lostAt.includes(++writes)) deposed.add(owner);
    return !deposed.has(owner);
  };
  runs.commit = async (ownership, write) =>
    (await may(ownership.owner)) ? await commit(ownership, write) : { kind: 'fenced' };
  runs.flush = async (ownership, seq, events) =>
    (await may(ownership.owner)) ? await flush(ownership, seq, events) : { kind: 'fenced' };
  return { wasLost: () => deposed.size === lostAt.length };
}

type Decision = Parameters<ReturnType<typeof makeJobs>['ports']['decide']>[1];

function decidesAbout({ approvals, answers }: Decision): string {
  return approvals?.[0]?.toolCallId ?? answers?.[0]?.questionId ?? '';
}

interface Scene {
  readonly tools: readonly Tool[];
  readonly script: ModelScript;
  /** What people decide once they are asked, in order. */
  readonly decisions?: readonly Decision[];
}

/** The run, with a worker that loses it at each of these writes and another one that goes on. */
async function lostAt(writes: readonly number[], { tools, script, decisions = [] }: Scene) {
  const asker = defineAgent({ id: 'asker', model: 'm', tools: [...tools] });
  const plain = defineAgent({ id: 'plain', model: 'm' });
  const agents = new Map([asker, plain].map((agent) => [agent.definition.id, loadedFrom(agent)]));
  const provider = createScriptedProvider((request, signal) => {
    const [first] = request.messages.filter(({ role }) => role === 'user');
    const isAsker = first?.role === 'user' && first.content === 'Begin.';
    return isAsker ? script(request, signal) : { text: 'answer' };
  });
  const jobs = makeJobs(asker, provider, 1_000, { agents, flushTimer: new EagerTimer(5) });
  const store = losing(jobs.ports.runs, writes);
  const runId = jobs.submit({ input: 'Begin.' });
  const left = [...decisions];
  let tries = 0;
  for (let round = 0; round < 40; round++) {
    const record = await jobs.load(runId);
    if (!record || isTerminalStatus(record.status)) break;
    if (record.status === 'suspended') {
      const children = record.pending.filter(({ kind }) => kind === 'child').map(({ id }) => id);
      const asked = record.pending.map(({ id }) => id);
      const next = left.findIndex((decision) => asked.includes(decidesAbout(decision)));
      if (next !== -1) jobs.ports.decide(runId, left.splice(next, 1)[0] ?? {});
      // The last one first, so that answers come in another order than they were asked for.
      else for (const id of children.slice(-1)) await deliver(id);
      continue;
    }
    await deliver(runId);
  }
  async function deliver(id: string) {
    await jobs.deliver(id, ++tries).catch((error: unknown) => {
      if (!(error instanceof RunError && error.code === 'lock_lost')) throw error;
    });
    if ((await jobs.load(id))?.parent && isTerminalStatus((await jobs.load(id))?.status ?? 'queued'))
      await jobs.ports.children.ended(id);
  }
  const record = await jobs.load(runId);
  return { record, events: jobs.ports.events(runId), wasLost: store.wasLost() };
}

const onlyOnce = new Set<RunEvent['type']>([
  'tool.execute.end',
  'tool.execute.error',
  'tool.approval.requested',
  'tool.approval.granted',
  'tool.approval.denied',
  'tool.outcome_unknown',
  'step.end',
]);

/** The events that happen once in a run, whichever worker it is on. */
function facts(events: readonly RunEvent[]): readonly string[] {
  const facts = events.filter(({ type }) => onlyOnce.has(type));
  return facts
    .map(
      (event) =>
        `${event.type} ${'toolCallId' in event ? event.toolCallId : 'stepNumber' in event ? event.stepNumber : ''}`,
    )
    .toSorted();
}

const toolOf = (name: string, execute: () => unknown, more: Partial<Parameters<typeof defineTool>[0]> = {}) =>
  defineTool({ name, description: name, inputSchema: z.strictObject({}), effect: 'idempotent', ...more, execute });
const asking = (...names: readonly string[]): ModelScript => {
  return ({ messages }) => {
    if (messages.some(({ role }) => role === 'tool')) return { text: 'Done.' };
    const toolCalls = names.map((name, index) => ({
      id: `c${index}`,
      name,
      args: name === 'ask' ? { input: 'x' } : {},
    }));
    return { toolCalls };
  };
};
const decide = (toolCallId: string, granted: boolean) => ({ approvals: [{ toolCallId, granted }] });
const soon = async () => await setImmediate();
const later = async () => {
  for (let turn = 0; turn < 12; turn++) await setImmediate();
};

const scenes: Record<string, Scene> = {
  'calls of which some wait for people': {
    tools: [toolOf('pay', soon, { needsApproval: true }), toolOf('look', soon, { effect: 'read' })],
    script: asking('pay', 'pay', 'pay', 'look'),
    decisions: [decide('c1', true), decide('c0', false), decide('c2', true)],
  },
  'calls that other agents do': {
    tools: [createAgentTool({ id: 'plain' }, { name: 'ask' }), toolOf('look', soon, { effect: 'read' })],
    script: asking('ask', 'ask', 'look'),
  },
  'calls that end in another order': {
    tools: [toolOf('slow', later), toolOf('look', soon, { effect: 'read' }), toolOf('late', later, { effect: 'read' })],
    script: asking('slow', 'look', 'late', 'slow', 'look'),
  },
  'a read call that people grant': {
    tools: [toolOf('peek', soon, { effect: 'read', needsApproval: true }), toolOf('slow', later)],
    script: asking('peek', 'peek', 'slow'),
    decisions: [decide('c1', true), decide('c0', true)],
  },
};

test.each(Object.entries(scenes))('%s: wherever the run is lost, each fact is published once', async (_what, scene) => {
  const whole = await lostAt([], scene);
  expect(whole.record).toMatchObject({ status: 'completed', result: { text: 'Done.' } });
  expect(new Set(facts(whole.events)).size, 'nothing happens twice where nothing is lost').toBe(
    facts(whole.events).length,
  );
  let writes = 0;
  for (let more = true; more;) {
    const { record, events, wasLost } = await lostAt([++writes], scene);
    more = wasLost;
    expect(record?.status, `lost at write ${writes}`).toBe('completed');
    expect.soft(facts(events), `lost at write ${writes}`).toEqual(facts(whole.events));
  }
  expect(writes, 'there were writes to lose').toBeGreaterThan(8);
});

const unsure = (onUnknown: 'report' | 'suspend'): Scene => ({
  tools: [toolOf('wire', soon, { effect: 'once', onUnknown }), toolOf('look', later, { effect: 'read' })],
  script: asking('wire', 'look', 'wire'),
  decisions: ['c0:outcome', 'c2:outcome'].map((questionId) => ({ answers: [{ questionId, text: 'it was made' }] })),
});

test.each(['report', 'suspend'] as const)(
  'calls with an unknown outcome (%s): wherever the run is lost twice, that is published once',
  async (onUnknown) => {
    let unknown = 0;
    for (let first = 2; first < 6; first++) {
      for (let second = first + 1; second < 14; second++) {
        const { record, events } = await lostAt([first, second], unsure(onUnknown));
        const found = facts(events);
        expect(record?.status, `lost at ${first} and ${second}`).toBe('completed');
        expect.soft(found, `lost at ${first} and ${second}`).toEqual([...new Set(found)]);
        unknown += found.filter((fact) => fact.startsWith('tool.outcome_unknown')).length;
      }
    }
    expect(unknown).toBeGreaterThan(8);
  },
);

test.each(['worker_lost', 'lock_lost'] as const)(
  'calls that are cut off by %s have not ended, and the next worker publishes each end once',
  async (code) => {
    const looked = Promise.withResolvers<void>();
    let runs = 0;
    const slow = defineTool({
      name: 'slow',
      description: 'Slow at first.',
      inputSchema: z.strictObject({}),
      effect: 'idempotent',
      async execute(_args, { signal }) {
        if (++runs > 1) return 'at last';
        return await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      },
    });
    const rescue = defineTool({
      name: 'rescue',
      description: 'Answers when it is asked to stop.',
      inputSchema: z.strictObject({}),
      effect: 'idempotent',
      async execute(_args, { signal }) {
        await once(signal, 'abort');
        await soon();
        return 'saved';
      },
    });
    const asker = defineAgent({ id: 'asker', model: 'm', tools: [slow, rescue, toolOf('look', () => 'seen')] });
    const provider = createScriptedProvider(asking('slow', 'look', 'rescue'));
    const jobs = makeJobs(asker, provider, 1_000, { flushTimer: new EagerTimer(5) });
    const { runs: store } = jobs.ports;
    const commit = store.commit.bind(store);
    store.commit = async (ownership, write) => {
      const reply = await commit(ownership, write);
      if (write.entries.some(({ t }) => t === 'tool_result')) looked.resolve();
      return reply;
    };
    const runId = jobs.submit({ input: 'Begin.' });
    const stop = new AbortController();
    const first = jobs.deliver(runId, 1, stop.signal).catch((error: unknown) => error);
    await looked.promise;
    stop.abort(code === 'lock_lost' ? new RunError(code, 'the lease has ended') : new Error('shutting down'));
    await first;
    await later();
    await jobs.deliver(runId, 2);
    expect(jobs.eventsOf(runId, 'tool.execute.error')).toEqual([]);
    expect(jobs.eventsOf(runId, 'tool.execute.end').map(({ toolCallId }) => toolCallId)).toEqual(['c0', 'c1', 'c2']);
    expect(await jobs.load(runId)).toMatchObject({ status: 'completed' });
  },
);
