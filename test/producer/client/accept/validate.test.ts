import { expect, test } from 'vitest';
import { RunError } from '../../../../src/shared/base/errors.ts';
import { maxInputBytes } from '../../../../src/shared/contract/run.ts';
import { checkRunId, parseRequest } from '../../../../src/producer/client/accept/validate.ts';

const good = { agent: 'support', input: 'hello' };

function refusalOf(work: () => unknown): RunError {
  try {
    work();
  } catch (error) {
    if (error instanceof RunError) return error;
    throw error;
  }
  throw new Error('was accepted');
}

function nested(levels: number): unknown {
  let value: unknown = 'x';
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}

test('a request comes out with its defaults in place', () => {
  expect(parseRequest({ ...good, budget: { maxCostUsd: 0.05 } }).budget).toEqual({
    maxCostUsd: 0.05,
    onExceed: 'fail',
    unpriced: 'allow',
  });
});

test('every problem of a request is listed with its path', () => {
  const error = refusalOf(() => parseRequest({ agent: 7, surprise: 1, budget: { maxCostUsd: 'much' } }));
  expect(error.code).toBe('validation');
  const paths = (error.details as { path: string }[]).map((problem) => problem.path);
  expect(paths).toEqual(expect.arrayContaining(['agent', 'input', 'budget.maxCostUsd', 'surprise']));
});

test.each(['agent', 'thread', 'executionId', 'sessionId'])(
  '%s with characters that ids may not have is an invalid id',
  (field) => {
    for (const id of ['a b', '{x}', '*', '../x', '', 'x'.repeat(129), 'a\0']) {
      expect(refusalOf(() => parseRequest({ ...good, [field]: id })).code).toBe('invalid_id');
    }
  },
);

test('a bad id beside another mistake is a validation problem that names both', () => {
  const error = refusalOf(() => parseRequest({ ...good, thread: '{}', priority: -1 }));
  expect(error.code).toBe('validation');
  expect(error.details).toHaveLength(2);
});

test('nesting is accepted up to 64 levels and refused beyond, however deep', () => {
  expect(refusalOf(() => parseRequest(nested(64))).code).toBe('validation');
  expect(refusalOf(() => parseRequest(nested(65))).code).toBe('too_deep');
  expect(refusalOf(() => parseRequest(nested(100_000))).code).toBe('too_deep');
});

test('a key that looks like a credential is refused with its path, anywhere but in the text of the input', () => {
  const error = refusalOf(() => parseRequest({ ...good, metadata: { apiKey: 'x' } }));
  expect(error.code).toBe('secret_in_payload');
  expect(error.message).toContain('metadata.apiKey');
  expect(refusalOf(() => parseRequest({ ...good, authorization: 'Bearer x' })).code).toBe('secret_in_payload');
  expect(parseRequest({ ...good, input: '{"apiKey":"x"}' }).input).toBe('{"apiKey":"x"}');
});

test('an input over its limit in bytes is too large, one at the limit is not', () => {
  expect(parseRequest({ ...good, input: 'é'.repeat(maxInputBytes / 2) }).input).toHaveLength(maxInputBytes / 2);
  expect(refusalOf(() => parseRequest({ ...good, input: `${'é'.repeat(maxInputBytes / 2)}x` })).code).toBe(
    'payload_too_large',
  );
});

test('metadata over its limits is a validation problem', () => {
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v']));
  expect(refusalOf(() => parseRequest({ ...good, metadata: many })).code).toBe('validation');
  expect(refusalOf(() => parseRequest({ ...good, metadata: { k: 'v'.repeat(513) } })).code).toBe('validation');
});

test('numbers are neither coerced nor rounded', () => {
  for (const priority of ['1', 1.5, Number.NaN, Number.POSITIVE_INFINITY, -1, 2 ** 53]) {
    expect(refusalOf(() => parseRequest({ ...good, priority })).code).toBe('validation');
  }
});

test('a prototype key changes nothing outside the request', () => {
  const evil: unknown = JSON.parse('{"agent":"support","input":"x","__proto__":{"polluted":true}}');
  expect(refusalOf(() => parseRequest(evil)).code).toBe('validation');
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
});

test('a run id with characters that ours never have is invalid, another that is not ours is unknown', () => {
  for (const id of ['a:b', '{x}', '*', '..', '', ' ', 'a\0b', 'x'.repeat(129), undefined, 12, '../../etc']) {
    expect(refusalOf(() => checkRunId(id)).code).toBe('invalid_id');
  }
  for (const id of ['nope', '12', '__proto__', '01hzzzzzzzzzzzzzzzzzzzzzzz']) {
    expect(refusalOf(() => checkRunId(id)).code).toBe('run_not_found');
  }
  expect(checkRunId('01HZZZZZZZZZZZZZZZZZZZZZZZ')).toBe('01HZZZZZZZZZZZZZZZZZZZZZZZ');
});

const node = { type: 'agent', id: 'n', prompt_template: '{{ input }}' };

test.each([
  ['onBusy', 'without a thread', { onBusy: 'interrupt' }],
  ['onBusy', 'for a message that is to be sent later', { onBusy: 'steer', thread: 't', delayMs: 1_000 }],
  ['compact', 'without a thread', { compact: true }],
  ['compact', 'for a message that a running run reads', { compact: true, onBusy: 'steer', thread: 't' }],
  [
    'onBusy',
    'for one message with a history',
    { onBusy: 'steer', thread: 't', history: [{ role: 'user', content: 'Hi' }] },
  ],
  ['store', 'for a thread, which keeps it', { store: false, thread: 't' }],
  [
    'history',
    'in place of a turn',
    { fanOut: { children: [{ agent: 'a' }] }, history: [{ role: 'user', content: 'Hi' }] },
  ],
  ['instructions', 'for a node', { node, instructions: 'Be brief.' }],
  ['outputSchema', 'for a node', { node, outputSchema: {} }],
  ['deadlineMs', 'that has passed before the run may begin', { deadlineMs: 1_000, delayMs: 1_000 }],
])('%s is refused %s', (path, _, fields) => {
  const error = refusalOf(() => parseRequest({ ...good, ...fields }));
  expect(error).toMatchObject({ code: 'validation', details: [{ path }] });
});
