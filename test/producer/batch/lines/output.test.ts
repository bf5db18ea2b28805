import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import type { LineHead, LineOutcome } from '../../../../src/producer/batch/lines/line.ts';
import { needsOriginal, outputHeader, outputLine } from '../../../../src/producer/batch/lines/output-line.ts';
import { sourceOf } from './support.ts';

const runId = '7C9ZD3K5N8QW2X4B6C1D0E9FGH';
const head: LineHead = { line: 2, id: 'a', offset: 9, length: 5 };

function ended(about: Partial<Extract<LineOutcome, { kind: 'ended' }>['outcome']> = {}): LineOutcome {
  const outcome = { runId, status: 'completed' as const, text: 'Yes.', costMicrocents: 700, steps: 1, ...about };
  return { kind: 'ended', executionId: 'batch:b:1', outcome };
}

const refused: LineOutcome = {
  kind: 'refused',
  executionId: 'batch:b:1',
  runId: undefined,
  error: { code: 'validation', message: 'the line is not JSON', retryable: false },
  costMicrocents: 0,
};

test('a line of JSONL is answered by one with its name, its run and its cost', () => {
  const source = sourceOf('"x"');
  expect([needsOriginal(source), outputHeader(source)]).toEqual([false, undefined]);
  const usage = { input: 1, output: 2, cached: 0, cacheWrite: 0, total: 3, byModel: {} };
  const outcome = ended({ usage, result: { text: 'Yes.', output: { yes: true } } });
  const text = outputLine(head, outcome, source, '');
  expect(text.endsWith('}\n')).toBe(true);
  expect(JSON.parse(text)).toEqual({
    line: 2,
    id: 'a',
    custom_id: 'a',
    executionId: 'batch:b:1',
    runId,
    status: 'completed',
    text: 'Yes.',
    output: { yes: true },
    costMicrocents: 700,
    usage,
  });
  expect(JSON.parse(outputLine({ ...head, id: undefined }, refused, source, ''))).toEqual({
    line: 2,
    executionId: 'batch:b:1',
    status: 'failed',
    text: '',
    error: { code: 'validation', message: 'the line is not JSON', retryable: false },
    costMicrocents: 0,
  });
});

function csvOf(header: string, answerFields: readonly string[], row: string, outcome: LineOutcome) {
  const source = sourceOf(`${header}\n`, {
    filename: 'in.csv',
    inputTemplate: `{{ row["${header.split(',')[0]}"] }}`,
    answerFields,
  });
  expect(needsOriginal(source)).toBe(true);
  const [names = [], fields = []] = parse(`${outputHeader(source)}${outputLine(head, outcome, source, row)}`);
  return Object.fromEntries(names.map((name, index) => [name, fields[index]]));
}

test('a row is answered by one that begins with what it said', () => {
  expect(csvOf('id,question', [], '7,"So, ""what""?"', ended({ text: 'One,\n"two"\rthree' }))).toEqual({
    id: '7',
    question: 'So, "what"?',
    status: 'completed',
    text: 'One,\n"two"\rthree',
    error: '',
    cost_usd: '0.000007',
    run_id: runId,
  });
  expect(csvOf('id,question', [], '7', refused)).toMatchObject({
    id: '7',
    question: '',
    status: 'failed',
    error: 'validation: the line is not JSON',
    cost_usd: '0',
    run_id: '',
  });
});

test('fields of a structured answer are columns, and an answer that does not fit them is text', () => {
  const fields = ['mood', 'score', 'tags'];
  const answer = (output: unknown) => csvOf('q', fields, 'x', ended({ text: 'as text', result: { text: '', output } }));
  expect(answer({ mood: 'good', score: -1.5, tags: ['a', 'b'] })).toMatchObject({
    mood: 'good',
    score: '-1.5',
    tags: '["a","b"]',
    text: '',
  });
  expect(answer({ mood: 'good', other: 1 })).toMatchObject({ mood: 'good', score: '', text: 'as text' });
  expect(answer(undefined)).toMatchObject({ mood: '', text: 'as text' });
  expect(answer({})).toMatchObject({ text: 'as text' });
});

test('a column of the input keeps its name, and one of ours gives way', () => {
  const row = csvOf(
    'status,text,run_text',
    ['status'],
    'mine,also,third',
    ended({ result: { text: '', output: { status: 'x' } } }),
  );
  expect(row).toMatchObject({
    status: 'mine',
    text: 'also',
    run_text: 'third',
    run_status: 'completed',
    run_run_status: 'x',
    run_run_text: '',
    run_id: runId,
  });
});

const wire = { endpoint: '/v1/responses' } as const;
const original = JSON.stringify({
  custom_id: 'a',
  method: 'POST',
  url: wire.endpoint,
  body: { model: 'support', input: 'Hi' },
});

test('a line of OpenAI that was refused has their error, in place of an answer', () => {
  const source = sourceOf(original, wire);
  expect(needsOriginal(source)).toBe(true);
  const error = { code: 'validation', message: 'twice', retryable: false, reason: 'duplicate_custom_id' } as const;
  expect(JSON.parse(outputLine(head, { ...refused, error }, source, original))).toEqual({
    id: 'batch_req_2',
    custom_id: 'a',
    response: null,
    error: { code: 'duplicate_custom_id', message: 'twice' },
  });
});

test('a line of OpenAI whose run failed is answered with the status and the error that a request would have got', () => {
  const error = { code: 'provider_rate_limit', message: 'too many', retryable: true } as const;
  const line = outputLine(head, ended({ status: 'failed', error }), sourceOf(original, wire), original);
  expect(JSON.parse(line)).toMatchObject({
    custom_id: 'a',
    response: {
      status_code: 503,
      request_id: runId,
      body: { error: { code: 'provider_rate_limit', type: 'server_error' } },
    },
    error: null,
  });
});

test('a line of OpenAI is answered as its endpoint would have answered', () => {
  const result = { text: 'Yes.', finishReason: 'stop' as const };
  const line = JSON.parse(outputLine(head, ended({ result }), sourceOf(original, wire), original)) as object;
  expect(line).toMatchObject({
    id: 'batch_req_2',
    custom_id: 'a',
    response: {
      status_code: 200,
      request_id: runId,
      body: { id: `resp_${runId}`, object: 'response', status: 'completed', model: 'support', output_text: 'Yes.' },
    },
    error: null,
  });
  const endpoint = '/v1/chat/completions';
  const body = { model: 'support', messages: [{ role: 'user', content: 'Hi' }] };
  const chat = JSON.stringify({ custom_id: 'a', method: 'POST', url: endpoint, body });
  const answered = JSON.parse(outputLine(head, ended({ result }), sourceOf(chat, { endpoint }), chat)) as object;
  expect(answered).toMatchObject({
    response: { body: { object: 'chat.completion', choices: [{ message: { content: 'Yes.' } }] } },
  });
});
