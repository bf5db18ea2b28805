import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { rounds } from '../../support/lane.ts';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import type { Message } from '../../../src/shared/contract/message.ts';
import type { ScriptedAnswer } from '../../../src/worker/llm/backends/scripted.ts';
import { foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import { tool } from '../tools/world.ts';
import { bySteps, makeTurn, question, stepOf, type TurnOptions } from './world.ts';

/** The tools of a world outside, which notes the key of every call that reaches it, and of those to `pay`. */
function outside() {
  const effects: string[] = [];
  const paid: string[] = [];
  const acts = (name: string, effect: 'read' | 'idempotent' | 'once') =>
    tool(
      name,
      ({ n }, { idempotencyKey }) => {
        effects.push(idempotencyKey);
        if (effect === 'once') paid.push(idempotencyKey);
        return `${name} ${String(n)}`;
      },
      { effect },
    );
  const breaks = tool('break', () => Promise.reject(new Error('broken')));
  return { effects, paid, tools: [acts('read', 'read'), acts('put', 'idempotent'), acts('pay', 'once'), breaks] };
}

type Plan = readonly (readonly string[])[];

/** What the model says, by step; arguments differ from call to call. */
function stepsOf(plan: Plan): ScriptedAnswer[] {
  return plan.map((names, step) => ({
    text: `step ${step + 1}`,
    toolCalls: names.map((name, index) => ({ name, args: { n: `${step + 1}.${index}` } })),
  }));
}

function optionsFor(plan: Plan, tools: TurnOptions['tools'] & object): TurnOptions {
  return { script: bySteps(...stepsOf(plan)), tools, limits: { maxCorrections: 100 } };
}

function keyOf(entry: { step: number }, index: number): string {
  return `R:s${entry.step}:t${index}`;
}

function calledKeys(entries: readonly JournalEntry[]): Set<string> {
  return new Set(entries.flatMap((entry) => (entry.t === 'tool_result' ? [keyOf(entry, entry.index)] : [])));
}

/** Keys of once calls whose intent is recorded without a result. */
function keysInDoubt(entries: readonly JournalEntry[], plan: Plan): Set<string> {
  const called = calledKeys(entries);
  const begun = entries.flatMap((entry) =>
    entry.t === 'tool_intent'
      ? entry.indexes.filter((index) => plan[entry.step - 1]?.[index] === 'pay').map((index) => keyOf(entry, index))
      : [],
  );
  return new Set(begun.filter((key) => !called.has(key)));
}

/** The conversation, where what was said about calls in doubt does not count. */
function comparable(messages: readonly Message[], doubt: ReadonlySet<string>): unknown[] {
  return messages.map((message) => {
    if (message.role !== 'tool') return message;
    const [, step = 0, place = 0] = message.toolCallId.split('_').map(Number);
    return doubt.has(`R:s${step}:t${place - 1}`) ? { ...message, content: 'in doubt', isError: true } : message;
  });
}

const plans = fc.array(
  fc.array(fc.constantFrom('read', 'put', 'pay', 'break', 'nonsense'), { minLength: 1, maxLength: 4 }),
  { maxLength: 4 },
);

test('from every beginning of a journal a turn ends with the same conversation and repeats nothing that must not be', async () => {
  await fc.assert(
    fc.asyncProperty(plans, fc.nat(), async (plan, cut) => {
      const whole = makeTurn(optionsFor(plan, outside().tools));
      const ended = await whole.run();
      const kept = whole.journal.slice(0, cut % (whole.journal.length + 1));
      const state = foldJournal(question, kept);

      const { effects, paid, tools } = outside();
      const resumed = makeTurn(optionsFor(plan, tools), [...kept]);
      const outcome = await resumed.run();

      const doubt = keysInDoubt(kept, plan);
      const called = calledKeys(kept);
      expect(outcome.status).toBe(ended.status);
      expect(comparable(outcome.state.messages, doubt)).toEqual(comparable(ended.state.messages, doubt));
      expect(resumed.requests.every((request) => stepOf(request) > state.step)).toBe(true);
      expect(effects).toHaveLength(new Set(effects).size);
      expect(effects.filter((key) => called.has(key))).toEqual([]);
      expect(paid.filter((key) => doubt.has(key))).toEqual([]);
    }),
    { numRuns: rounds({ fast: 60, all: 600 }) },
  );
});

test('however often the store breaks, before or after it has written, a once tool takes effect at most once', async () => {
  await fc.assert(
    fc.asyncProperty(
      plans,
      fc.array(fc.record({ after: fc.nat(4), written: fc.boolean() }), { maxLength: 4 }),
      async (plan, breaks) => {
        const { paid, tools } = outside();
        const journal: JournalEntry[] = [];
        const steps: number[] = [];
        for (const broken of [...breaks, undefined]) {
          let writes = 0;
          const worker = makeTurn(
            {
              ...optionsFor(plan, tools),
              deps: {
                async record(entries) {
                  const breaksNow = broken && writes++ === broken.after;
                  if (!breaksNow || broken.written) journal.push(...entries);
                  if (breaksNow) throw new RunError('queue_unavailable', 'away');
                },
              },
            },
            journal,
          );
          const outcome = await worker.run();
          steps.push(...worker.requests.map(stepOf));
          if (outcome.status === 'completed') break;
          expect(outcome).toMatchObject({ status: 'failed', error: { code: 'queue_unavailable' } });
        }
        expect(paid).toHaveLength(new Set(paid).size);
        expect(steps.length).toBeLessThanOrEqual(plan.length + 1 + breaks.length);
      },
    ),
    { numRuns: rounds({ fast: 60, all: 600 }) },
  );
});

test('a worker that continues in the middle of a step does not call the model first', async () => {
  const { tools } = outside();
  const first = makeTurn(optionsFor([['read', 'pay']], tools));
  await first.run();
  const resumed = makeTurn(optionsFor([['read', 'pay']], tools), first.journal.slice(0, 1));
  await resumed.run();
  expect(resumed.events.slice(0, 2).map((event) => event.type)).toEqual(['tool.execute.start', 'tool.execute.start']);
  expect(resumed.eventsOf('step.end').map((event) => event.stepNumber)).toEqual([1, 2]);
});

test('an answer that was recorded before the crash is completed without another model call', async () => {
  const first = makeTurn({ script: () => ({ text: 'ok' }) });
  await first.run();
  const resumed = makeTurn({ script: () => ({ text: 'another' }) }, first.journal);
  expect(await resumed.run()).toMatchObject({ status: 'completed', text: 'ok' });
  expect(resumed.requests).toEqual([]);
  expect(resumed.events).toEqual([]);
});

test('attempts of a worker that failed keep counting', async () => {
  const first = makeTurn({ script: () => ({ error: { kind: 'overloaded' } }), maxAttempts: 2 });
  await first.run();
  const resumed = makeTurn({ script: () => ({ text: 'ok' }) }, first.journal);
  await resumed.run();
  expect(resumed.eventsOf('cost.updated').map((event) => event.attemptNumber)).toEqual([3]);
});

test('the model gets an unknown outcome, and the same call again is refused in any later step', async () => {
  const { effects, tools } = outside();
  const same = { toolCalls: [{ name: 'pay', args: { n: 'same' } }] };
  const script = bySteps(same, same, { toolCalls: [{ name: 'pay', args: { n: 'other' } }] });
  const first = makeTurn({ script, tools });
  await first.run();
  effects.length = 0;
  const resumed = makeTurn({ script, tools }, first.journal.slice(0, 2));
  const outcome = await resumed.run();
  expect(effects).toEqual(['R:s3:t0']);
  expect(resumed.journal.flatMap((entry) => (entry.t === 'tool_intent' ? [entry.step] : []))).toEqual([1, 3]);
  expect(resumed.eventsOf('tool.outcome_unknown')).toHaveLength(1);
  const results = outcome.state.messages.filter((message) => message.role === 'tool');
  expect(results.map((message) => message.isError ?? false)).toEqual([true, true, false]);
  expect(results[1]?.content).toContain('a person has approved');
});

test.each([
  [
    'suspend',
    {
      status: 'suspended',
      wait: { reason: 'unknown_outcome', pending: [{ kind: 'unknown_outcome', toolName: 'pay' }] },
    },
  ],
  ['fail', { status: 'failed', error: { code: 'tool_outcome_unknown', retryable: false } }],
] as const)('a tool may ask to %s the run when its outcome is not known', async (onUnknown, expected) => {
  const pay = tool('pay', () => 1, { effect: 'once', onUnknown });
  const options = { script: bySteps({ toolCalls: [{ name: 'pay' }] }), tools: [pay] };
  const first = makeTurn(options);
  await first.run();
  const resumed = makeTurn(options, first.journal.slice(0, 2));
  expect(await resumed.run()).toMatchObject(expected);
  expect(resumed.requests).toEqual([]);
});

test('what an abort left unfinished is finished by the next worker', async () => {
  const { effects, tools } = outside();
  const started = Promise.withResolvers<void>();
  const slow = tool('slow', (_args, { signal }) => {
    started.resolve();
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  });
  const script = bySteps({ toolCalls: [{ name: 'slow' }, { name: 'pay' }] });
  const first = makeTurn({ script, tools: [...tools, slow] });
  const outcome = first.run();
  await started.promise;
  first.stop.abort(new RunError('worker_lost', 'leaving'));
  expect(await outcome).toMatchObject({ status: 'failed', error: { code: 'worker_lost' } });
  const resumed = makeTurn({ script, tools: [...tools, tool('slow', () => 'slow but there')] }, first.journal);
  expect(await resumed.run()).toMatchObject({ status: 'completed', text: 'done' });
  expect(effects).toEqual(['R:s1:t1']);
});
