import { expect, test } from 'vitest';
import { Redactor } from '../../../../src/shared/base/redact.ts';
import { outputSummary, shownData } from '../../../../src/worker/tools/execute/result.ts';
import { messageIn } from '../../../../src/shared/base/errors.ts';
import { ToolError, errorResult, faultOf } from '../../../../src/worker/tools/tool-error.ts';
import { calls, makeWorld, tool } from '../world.ts';

const redactor = new Redactor(['hunter2-secret']);
/** What the journal has of a call that returned this. */
async function resultOf(value: unknown) {
  const world = makeWorld();
  await world.run([tool('look', () => value)], calls('look'));
  return world.result(0);
}

const cyclic: Record<string, unknown> = {};
cyclic.self = cyclic;

test.each([
  ['a string', 'text', 'text'],
  ['an object', { a: 1, b: [true, null] }, '{"a":1,"b":[true,null]}'],
  ['a number', 7, '7'],
  ['null', null, 'null'],
  ['a big integer', { n: 12345678901234567890n }, '{"n":"12345678901234567890"}'],
  ['a buffer', Buffer.from('abc'), '"[3 bytes of binary data]"'],
  [
    'a buffer inside',
    { a: [new Uint8Array(5)], b: Buffer.from('x') },
    '{"a":["[5 bytes of binary data]"],"b":"[1 bytes of binary data]"}',
  ],
  ['a date', new Date(0), '"1970-01-01T00:00:00.000Z"'],
])('%s becomes the text that the model sees', async (_what, value, content) => {
  expect(await resultOf(value)).toMatchObject({ content });
});

test.each([[undefined], [''], [' \n'], [() => 1]])('no output is described in words: %j', async (value) => {
  expect(await resultOf(value)).toMatchObject({ content: 'The tool ran with no output.' });
});

test.each([
  ['a cycle', cyclic],
  [
    'a getter that throws',
    Object.defineProperty({}, 'x', {
      enumerable: true,
      get: () => {
        throw new Error('no');
      },
    }),
  ],
  [
    'a toJSON that throws',
    {
      toJSON: () => {
        throw new Error('no');
      },
    },
  ],
])('%s is an output that cannot be used', async (_what, value) => {
  expect(await resultOf(value)).toMatchObject({ errorKind: 'invalid_output' });
});

test('a result of 1 MB is cut in the middle', async () => {
  const { content } = await resultOf('x'.repeat(1_000_000));
  expect(Buffer.byteLength(content)).toBeLessThanOrEqual(50 * 1024);
  expect(content).toContain('the middle was cut');
});

test('a buffer of 100 MB is not written out', async () => {
  expect((await resultOf({ file: Buffer.alloc(100_000_000) })).content).toContain('100000000 bytes');
});

test('half characters in a result are replaced', async () => {
  expect((await resultOf('a\ud800b')).content).toBe('a\ufffdb');
});

test('an output summary is scrubbed and at most 500 characters', () => {
  const summary = outputSummary(`hunter2-secret ${'x'.repeat(5_000)}`, redactor);
  expect(summary).toHaveLength(500);
  expect(summary).not.toContain('hunter2');
});

test('a secret at the edge of the summary leaves nothing of itself behind', () => {
  expect(outputSummary(`${'x'.repeat(495)}hunter2-secret`, redactor)).not.toContain('hunt');
});

test('progress data is scrubbed, bounded and never throws', () => {
  expect(shownData({ password: 'p', at: 'hunter2-secret' }, redactor)).toEqual({
    password: '[redacted]',
    at: '[redacted]',
  });
  expect(shownData(undefined, redactor)).toBeNull();
  expect(shownData(cyclic, redactor)).toBe('[cannot be shown]');
  expect(JSON.stringify(shownData('x'.repeat(100_000), redactor)).length).toBeLessThan(5_000);
});

test.each([
  ['a string', 'broken', 'broken'],
  ['nothing', undefined, 'no reason was given'],
  ['null', null, 'no reason was given'],
  ['an error without a message', new Error(''), 'no reason was given'],
  ['an object with a message', { message: 'odd' }, 'odd'],
  ['an object with a message that is no text', { message: 4 }, 'no reason was given'],
  [
    'a message that cannot be read',
    Object.defineProperty({}, 'message', {
      get: () => {
        throw new Error('no');
      },
    }),
    'no reason could be read',
  ],
])('%s that is thrown becomes an execution failure', (_what, thrown, message) => {
  expect(faultOf(thrown)).toEqual({ kind: 'execution_failed', message });
});

test('a huge message is cut', () => {
  expect(faultOf(new Error('x'.repeat(1_000_000))).message).toHaveLength(2_000);
});

test('a tool error keeps its kind, and a kind that does not exist counts as an execution failure', () => {
  expect(faultOf(new ToolError('rate_limited', 'busy'))).toEqual({ kind: 'rate_limited', message: 'busy' });
  expect(faultOf(new ToolError('nonsense' as never, 'busy')).kind).toBe('execution_failed');
});

test('an error for the model begins with our words, carries the hint and ends with the kind', () => {
  const { content } = errorResult({ kind: 'execution_failed', message: 'bullmq:movedToDelayed' }, 'look');
  expect(content).toBe('Error of tool look: bullmq:movedToDelayed\nHint: try_alternative\nKind: execution_failed');
  expect(messageIn(content)).toBe('bullmq:movedToDelayed');
});
