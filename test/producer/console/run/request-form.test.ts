import { expect, test } from 'vitest';
import {
  emptyForm,
  formOf,
  readForm,
  type RequestForm,
} from '../../../../src/producer/console/views/run/record/request-form.ts';
import { runRequestBody, type RunRequestInput } from '../../../../src/shared/contract/run.ts';

function requestIn(form: Partial<RequestForm>) {
  const read = readForm({ ...emptyForm, agent: 'support', input: 'Hello', ...form });
  if (read.kind === 'problems') throw new Error(JSON.stringify(read.problems));
  return read.request;
}

test('a form becomes the request that a producer takes', () => {
  const request = requestIn({
    thread: 'anna',
    model: 'gpt-5.2',
    maxSteps: '4',
    maxCostUsd: '0.05',
    deadlineS: '90',
    priority: '0',
    metadata: 'user=anna\nnote=a=b\n',
  });
  expect(request).toEqual({
    agent: 'support',
    input: 'Hello',
    thread: 'anna',
    overrides: { model: 'gpt-5.2' },
    limits: { maxSteps: 4 },
    budget: { maxCostUsd: 0.05 },
    deadlineMs: 90_000,
    priority: 0,
    metadata: { user: 'anna', note: 'a=b' },
  });
  expect(runRequestBody.safeParse(request).error).toBeUndefined();
});

test('every request comes out of its form as it went in', () => {
  const requests: RunRequestInput[] = [
    { agent: 'a', input: 'x' },
    { agent: 'a', input: ' spaced\n', metadata: { k: 'v' }, onBusy: 'reject', outputSchema: { type: 'object' } },
    { agent: 'a', input: [{ type: 'text', text: 'parts' }], limits: { maxSteps: 2, wallTimeMs: 500 } },
    {
      agent: 'a',
      input: 'x',
      budget: { maxCostUsd: 2, onExceed: 'warn' },
      overrides: { model: 'm', background: true },
    },
    { agent: 'a', input: '', fanOut: { children: [{ agent: 'b', input: 'c' }] } },
  ];
  for (const request of requests) {
    const read = readForm(formOf(request));
    const { input, ...rest } = request;
    expect(read).toEqual({ kind: 'request', request: input === '' ? rest : request });
  }
});

test('what cannot be meant is said at its field', () => {
  const wrong = { maxSteps: '1.5', maxCostUsd: 'much', deadlineS: '-1', metadata: 'user', more: '[1]' };
  const read = readForm({ ...emptyForm, ...wrong });
  expect(read.kind === 'problems' && Object.keys(read.problems).sort()).toEqual(
    ['agent', 'deadlineS', 'input', 'maxCostUsd', 'maxSteps', 'metadata', 'more'].sort(),
  );
  expect(read.kind === 'problems' && read.problems.metadata).toContain('key=value');
});
