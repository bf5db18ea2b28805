import { expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import type { ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { tool } from '../tools/world.ts';
import { makeTurn, type TurnOptions } from './world.ts';

const look = tool('look', () => 'blue');
const spec = { closingAnswer: true };
const isAskedToClose = (messages: Parameters<ModelScript>[0]['messages']) =>
  messages.at(-1)?.role === 'user' && messages.length > 2;
/** Looks again and again, until it is asked for its last words. */
const script: ModelScript = ({ messages }) =>
  isAskedToClose(messages) ? { text: 'It is blue, I think.' } : { toolCalls: [{ name: 'look' }] };
const looking: TurnOptions = { script, tools: [look], spec, limits: { maxSteps: 2 } };

const incomplete = (reason: string) => ({
  status: 'completed',
  text: 'It is blue, I think.',
  degraded: false,
  incomplete: { reason },
});

test('at the limit of steps one call without tools makes an answer of what there is', async () => {
  const turn = makeTurn(looking);
  expect(await turn.run()).toMatchObject(incomplete('maxSteps'));
  const last = turn.requests.at(-1);
  expect(turn.requests).toHaveLength(4);
  // The tools are there still, so that what the provider has cached fits, and calls in the history are those of tools.
  expect(last).toMatchObject({ toolChoice: 'none', tools: [{ name: 'look' }] });
  const before = turn.requests[2]?.messages ?? [];
  expect(last?.messages.slice(0, before.length)).toEqual(before);
  // The round that was one too many has results, too.
  expect(last?.messages.slice(before.length)).toMatchObject([
    { role: 'assistant' },
    { role: 'tool', isError: true, content: expect.stringContaining('Kind: aborted') as string },
    { role: 'user', content: expect.stringContaining('reached a limit') as string },
  ]);
  expect(turn.eventsOf('tool.execute.error')).toMatchObject([{ error: { kind: 'aborted' } }]);
  expect(turn.eventsOf('step.end').map(({ stepNumber }) => stepNumber)).toEqual([1, 2, 3, 4]);
  expect(turn.journal.map(({ t }) => t).slice(-3)).toEqual(['tool_result', 'closing', 'model_response']);
});

test('without the option the limit ends the turn as ever', async () => {
  const turn = makeTurn({ ...looking, spec: {} });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
  expect(turn.requests).toHaveLength(3);
});

test.each([
  ['maxLlmCalls', { maxLlmCalls: 2 }],
  ['maxToolCalls', { maxToolCalls: 1 }],
] as const)('%s is such a limit', async (reason, limits) => {
  expect(await makeTurn({ ...looking, limits }).run()).toMatchObject(incomplete(reason));
});

test.each([
  ['wallTimeMs', 'run_timeout'],
  ['deadlineMs', 'deadline_exceeded'],
  ['budget', 'budget_exceeded'],
] as const)('the end of %s stops a tool that runs, and what there is becomes the answer', async (reason, code) => {
  const landing = new AbortController();
  const slow = tool(
    'look',
    async (_args, { signal }) => {
      landing.abort(new RunError(code, 'no time'));
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    },
    { effect: 'once' },
  );
  const turn = makeTurn({ ...looking, tools: [slow], deps: { landing: landing.signal } });
  expect(await turn.run()).toMatchObject(incomplete(reason));
  expect(turn.requests.at(-1)?.messages.at(-2)).toMatchObject({
    role: 'tool',
    content: expect.stringContaining('Kind: outcome_unknown') as string,
  });
});

test('a budget that refuses the next call leaves the closing one, shorter where it must be', async () => {
  const admitted: (string | undefined)[] = [];
  const long = tool('look', () => 'blue '.repeat(20_000), { maxResultTokens: 0 });
  const admit: NonNullable<TurnOptions['deps']>['admit'] = async ({ closing, step, request }) => {
    admitted.push(closing);
    const results = request.messages.filter(({ role }) => role === 'tool').map((message) => JSON.stringify(message));
    if (step === 2 && (closing === 'holds' || results.join('').length > 10_000))
      throw new RunError('budget_exceeded', 'no money');
    return { kind: 'go', settle: async () => {} };
  };
  const turn = makeTurn({ ...looking, tools: [long], deps: { admit, isCapped: true } });
  expect(await turn.run()).toMatchObject(incomplete('budget'));
  expect(admitted).toEqual(['holds', 'holds', 'takes', 'takes']);
  expect(turn.journal[0]).toMatchObject({ t: 'closing_held' });
  expect(turn.journal.filter(({ t }) => t === 'closing_held')).toHaveLength(1);
});

test('a turn that has not made a step has nothing to answer with', async () => {
  const admit = () => Promise.reject(new RunError('budget_exceeded', 'no money'));
  const turn = makeTurn({ ...looking, deps: { admit } });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'budget_exceeded' } });
  expect(turn.journal).toEqual([]);
});

test('a closing call that fails, or calls a tool, or answers nothing leaves the error of the limit, and is counted', async () => {
  const answers = [{ toolCalls: [{ name: 'look' }] }, { text: '' }, { error: 'overloaded' as const }];
  for (const closing of answers) {
    const script: ModelScript = ({ messages }) => {
      if (!isAskedToClose(messages)) return { toolCalls: [{ name: 'look' }] };
      if ('error' in closing) throw new Error('overloaded');
      return closing;
    };
    const turn = makeTurn({ ...looking, script });
    const outcome = await turn.run();
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
    expect(outcome.state.attempts.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
  }
});

test('a closing answer has to match the output schema', async () => {
  const outputSchema = { type: 'object', required: ['colour'] };
  const wrong = makeTurn({ ...looking, spec: { ...spec, outputSchema } });
  expect(await wrong.run()).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
  const right = makeTurn({
    ...looking,
    script: ({ messages }) =>
      isAskedToClose(messages) ? { text: '{"colour":"blue"}' } : { toolCalls: [{ name: 'look' }] },
    spec: { ...spec, outputSchema },
  });
  expect(await right.run()).toMatchObject({ status: 'completed', structured: { colour: 'blue' } });
});

test('a worker that continues makes the closing call only where none was begun', async () => {
  const whole = makeTurn(looking);
  await whole.run();
  for (let at = 0; at <= whole.journal.length; at++) {
    const journal = whole.journal.slice(0, at);
    const isBegun = journal.some(({ t }) => t === 'closing');
    const isAnswered = isBegun && journal.at(-1)?.t === 'model_response';
    const next = makeTurn(looking, [...journal]);
    const outcome = await next.run();
    const failed = { status: 'failed', error: { code: 'turn_limit' } };
    expect(outcome).toMatchObject(isBegun && !isAnswered ? failed : incomplete('maxSteps'));
    const closing = next.requests.filter(({ messages }) => isAskedToClose(messages));
    expect(closing).toHaveLength(isBegun ? 0 : 1);
  }
});

test('a cancel during the closing call cancels, and a worker that leaves before it hands over', async () => {
  const turn = makeTurn({
    ...looking,
    script: ({ messages }) => {
      if (isAskedToClose(messages)) turn.stop.abort(new RunError('cancelled', 'stop'));
      return script({ messages } as Parameters<ModelScript>[0], 0 as never);
    },
  });
  expect(await turn.run()).toMatchObject({ status: 'cancelled' });
  const journal: JournalEntry[] = [];
  let steps = 0;
  const leaving = makeTurn(
    {
      ...looking,
      script: (request, ...rest) => {
        steps++;
        return script(request, ...rest);
      },
      deps: { stopRequested: () => (steps === 3 ? 'hand_over' : undefined) },
    },
    journal,
  );
  expect(await leaving.run()).toMatchObject({ status: 'stopped', reason: 'hand_over' });
  expect(await makeTurn(looking, journal).run()).toMatchObject(incomplete('maxSteps'));
});
