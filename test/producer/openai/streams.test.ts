import { describe, expect, test } from 'vitest';
import type { EventBody, RunEvent } from '../../../src/shared/contract/event.ts';
import { ChatProjection } from '../../../src/producer/openai/chat-chunks.ts';
import { ResponseProjection, type ResponseEvent } from '../../../src/producer/openai/response-events.ts';

const runId = '01JD0000000000000000000000';
const createdAt = '2026-11-21T09:00:00.000Z';
const request = { agent: 'support', input: 'Where is order 7?' };
const usage = { input: 10, output: 5, cached: 0, cacheWrite: 0, total: 15, byModel: {} };

function log(bodies: readonly EventBody[]): RunEvent[] {
  return bodies.map((body, index) => ({ v: 1, runId, sequenceNumber: index + 1, timestamp: createdAt, ...body }));
}

const queued: EventBody = { type: 'run.queued', kind: 'agent.turn', queuedAt: createdAt };
const started: EventBody = { type: 'run.started', kind: 'agent.turn', attempt: 1 };
const begun = [queued, started];
const step = (stepNumber: number): EventBody => ({ type: 'step.start', stepNumber, model: 'm', modelSource: 'agent' });
const says = (delta: string): EventBody => ({ type: 'text.delta', delta, model: 'm' });
const thinks = (delta: string): EventBody => ({ type: 'reasoning.delta', delta, model: 'm' });
const said = (text: string): EventBody => ({ type: 'text.complete', text });
const again = (stepNumber: number): EventBody => ({ type: 'step.reset', stepNumber, reason: 'recovered' });
const endOfStep = (stepNumber: number): EventBody => ({ type: 'step.end', stepNumber, usage, finishReason: 'stop' });
const completed = (text: string, steps = 1): EventBody => ({
  type: 'run.completed',
  status: 'completed',
  result: { text, finishReason: 'stop' },
  usage,
  costMicrocents: 700,
  durationMs: 5,
  steps,
});
const error = { code: 'provider_unavailable', message: 'the provider is away', retryable: true } as const;
const failed: EventBody = { type: 'run.failed', error, usage, costMicrocents: 0 };
const calls = (toolCallId: string): EventBody[] => [
  { type: 'tool.execute.start', toolCallId, toolName: 'look', args: { id: 7 }, summary: 'look' },
  { type: 'tool.execute.end', toolCallId, toolName: 'look', success: true, outputSummary: 'shipped', durationMs: 1 },
];

function responseOf(bodies: readonly EventBody[]): ResponseEvent[] {
  const projection = new ResponseProjection(request);
  return log(bodies).flatMap((event) => projection.next(event));
}

/** What a reader of items has at the end. */
function itemsOf(events: readonly ResponseEvent[]) {
  return events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item);
}

describe('a streamed response', () => {
  test('has a thought, a call and an answer, each an item with all of its events, numbered from 0 without gaps', () => {
    const bodies = [
      ...begun,
      step(1),
      thinks('Which '),
      thinks('order?'),
      says('I look.'),
      said('I look.'),
      ...calls('c1'),
      step(2),
      says('It is '),
      says('shipped.'),
      said('It is shipped.'),
      completed('It is shipped.', 2),
    ];
    const events = responseOf(bodies);
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index));
    expect(
      events.map(({ type, output_index: index }) => (index === undefined ? type : `${type} ${index as number}`)),
    ).toEqual([
      'response.created',
      'response.queued',
      'response.in_progress',
      'response.output_item.added 0',
      'response.reasoning_summary_part.added 0',
      'response.reasoning_summary_text.delta 0',
      'response.reasoning_summary_text.delta 0',
      'response.reasoning_summary_text.done 0',
      'response.reasoning_summary_part.done 0',
      'response.output_item.done 0',
      'response.output_item.added 1',
      'response.content_part.added 1',
      'response.output_text.delta 1',
      'response.output_text.done 1',
      'response.content_part.done 1',
      'response.output_item.done 1',
      'response.output_item.added 2',
      'response.mcp_call.in_progress 2',
      'response.mcp_call.completed 2',
      'response.output_item.done 2',
      'response.output_item.added 3',
      'response.content_part.added 3',
      'response.output_text.delta 3',
      'response.output_text.delta 3',
      'response.output_text.done 3',
      'response.content_part.done 3',
      'response.output_item.done 3',
      'response.completed',
    ]);
    expect(itemsOf(events)).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'Which order?' }] },
      { id: `msg_${runId}_1`, content: [{ text: 'I look.' }] },
      { type: 'mcp_call', name: 'look', arguments: '{"id":7}', output: 'shipped', status: 'completed' },
      { id: `msg_${runId}_2`, content: [{ text: 'It is shipped.' }], status: 'completed' },
    ]);
    expect(events.at(-1)).toMatchObject({
      response: { status: 'completed', output_text: 'It is shipped.', usage: { total_tokens: 15 } },
    });
    expect(responseOf(bodies)).toEqual(events);
  });

  test('ends what a lost worker said as incomplete, and says the step again in another item', () => {
    const events = responseOf([
      ...begun,
      step(1),
      says('It is'),
      again(1),
      step(1),
      says('It was.'),
      said('It was.'),
      completed('It was.'),
    ]);
    expect(itemsOf(events)).toMatchObject([
      { status: 'incomplete', content: [{ text: 'It is' }] },
      { status: 'completed', content: [{ text: 'It was.' }] },
    ]);
    expect(events.at(-1)).toMatchObject({ response: { output: [{ content: [{ text: 'It was.' }] }] } });
  });

  test('has the answer also where no model streamed one', () => {
    const events = responseOf([...begun, completed('Merged.', 0)]);
    expect(itemsOf(events)).toMatchObject([{ content: [{ text: 'Merged.' }] }]);
    expect(events.at(-1)?.type).toBe('response.completed');
  });

  test.each([
    ['failed', failed, 'response.failed', { status: 'failed', error: { code: 'provider_unavailable' } }],
    [
      'was cancelled',
      { type: 'run.cancelled', drained: false, usage, costMicrocents: 0 },
      'response.failed',
      { status: 'cancelled' },
    ],
    [
      'reached a limit',
      { ...completed('It'), result: { text: 'It', incomplete: { reason: 'maxSteps' } } },
      'response.incomplete',
      { status: 'incomplete', incomplete_details: { reason: 'maxSteps' } },
    ],
  ] as const)('of a run that %s ends so', (_, end, type, response) => {
    expect(responseOf([...begun, step(1), says('It'), end as EventBody]).at(-1)).toMatchObject({ type, response });
  });
});

function chatOf(bodies: readonly EventBody[], withUsage = false) {
  const projection = new ChatProjection({ runId, createdAt, request, withUsage });
  const chunks = log(bodies).flatMap((event) => projection.next(event)) as {
    choices: { delta: { content?: string }; finish_reason: string | null }[];
    usage?: unknown;
  }[];
  return { chunks, content: chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('') };
}

describe('a streamed completion', () => {
  test('has the texts of all steps, one after the other, and how it ended', () => {
    const bodies = [
      ...begun,
      step(1),
      says('I look.'),
      endOfStep(1),
      ...calls('c1'),
      step(2),
      says('It is '),
      says('shipped.'),
      endOfStep(2),
      completed('It is shipped.', 2),
    ];
    const { chunks, content } = chatOf(bodies, true);
    expect(content).toBe('I look.\n\nIt is shipped.');
    expect(chunks[0]).toMatchObject({ choices: [{ delta: { role: 'assistant' } }], usage: null });
    expect(chunks.at(-2)).toMatchObject({ choices: [{ finish_reason: 'stop' }], millrace: { run_id: runId } });
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 15 } });
    expect(chatOf(bodies).chunks.at(-1)).not.toHaveProperty('usage');
  });

  test('sends nothing twice when a step is made again and says the same', () => {
    const { content } = chatOf([
      ...begun,
      step(1),
      says('It is '),
      again(1),
      step(1),
      says('It'),
      again(1),
      says('It is'),
      says(' shipped.'),
      endOfStep(1),
      completed('It is shipped.'),
    ]);
    expect(content).toBe('It is shipped.');
  });

  test.each([
    ['something else', [says('No.')]],
    ['less than before', [says('It'), endOfStep(1)]],
  ])('ends with an error that names the run when a step is made again and says %s', (_, more) => {
    const bodies = [...begun, step(1), says('It is '), again(1), step(1), ...more];
    expect(() => chatOf(bodies)).toThrow(`resp_${runId} has the whole answer`);
  });

  test('of a run that fails is its error, which is not worth a repeat', () => {
    expect(() => chatOf([...begun, failed])).toThrow(
      expect.objectContaining({ code: 'provider_unavailable', retryable: false, details: { runId } }),
    );
  });

  test('has the answer also where no model streamed one', () => {
    expect(chatOf([...begun, completed('Merged.', 0)]).content).toBe('Merged.');
  });
});
