import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { deriveExecutionId as fromWorker } from '../../../src/worker/index.ts';
import { deriveExecutionId, type TurnOfSession } from '../../../src/producer/index.ts';
import { publicId } from '../../../src/shared/base/ids.ts';
import { rounds } from '../../support/lane.ts';

const turn = { projectId: 'shop', sessionId: 'cart-7', turnIndex: 3 };

/** Names that are made to be mistaken for others. */
const name = fc.oneof(
  fc
    .array(fc.constantFrom(':', '::', '3a', 'h', 'a', '0', '%', 'ä', ' '), { minLength: 1, maxLength: 6 })
    .map((parts) => parts.join('')),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 90 }),
);
const anyTurn = fc.record({ projectId: name, sessionId: name, turnIndex: fc.nat({ max: 12 }) });

/** Undoes what escaping did, reading from the left. Only for ids that were not shortened. */
function namesIn(id: string): TurnOfSession {
  const bytes = id.replaceAll(/::([0-9a-f]{2})/g, '%$1');
  const [projectId = '', sessionId = '', turnIndex = ''] = bytes.split(':').map(decodeURIComponent);
  return { projectId, sessionId, turnIndex: Number(turnIndex) };
}

test('ordinary names stay readable', () => {
  expect(deriveExecutionId(turn)).toBe('shop:cart-7:3');
  expect(deriveExecutionId({ projectId: 'a.b_c-D', sessionId: '9', turnIndex: 0 })).toBe('a.b_c-D:9:0');
});

test('the same turn has the same id, through both doors', () => {
  expect(fromWorker({ ...turn })).toBe(deriveExecutionId({ ...turn }));
});

test('every id is one that a caller may use', () => {
  fc.assert(
    fc.property(anyTurn, (some) => publicId.safeParse(deriveExecutionId(some)).success),
    { numRuns: rounds({ fast: 500, all: 2_000 }) },
  );
});

test('an id that was not shortened says which turn it is, so that no two turns share one', () => {
  fc.assert(
    fc.property(anyTurn, (some) => {
      const id = deriveExecutionId(some);
      fc.pre(!/:h[0-9a-f]{64}$/.test(id));
      expect(namesIn(id)).toEqual(some);
    }),
    { numRuns: rounds({ fast: 500, all: 5_000 }) },
  );
});

test.each<[string, TurnOfSession, TurnOfSession]>([
  ['a colon', { ...turn, projectId: 'a:b', sessionId: 'c' }, { ...turn, projectId: 'a', sessionId: 'b:c' }],
  ['a colon at the border', { ...turn, projectId: 'a:', sessionId: 'b' }, { ...turn, projectId: 'a', sessionId: ':b' }],
  ['what escaping writes', { ...turn, projectId: 'a:b' }, { ...turn, projectId: 'a::3ab' }],
  ['a number at the end', { ...turn, sessionId: 'a:1', turnIndex: 2 }, { ...turn, sessionId: 'a', turnIndex: 12 }],
  [
    'the end of a long name',
    { ...turn, sessionId: `${'x'.repeat(200)}1` },
    { ...turn, sessionId: `${'x'.repeat(200)}2` },
  ],
  [
    'the turn of a long name',
    { ...turn, sessionId: 'x'.repeat(200) },
    { ...turn, sessionId: 'x'.repeat(200), turnIndex: 4 },
  ],
])('turns that differ only by %s have different ids', (_, one, other) => {
  expect(deriveExecutionId(one)).not.toBe(deriveExecutionId(other));
});

test('a name that looks like a shortened id is not taken for one', () => {
  const long = deriveExecutionId({ ...turn, sessionId: 'x'.repeat(200) });
  expect(long).toHaveLength(128);
  const [projectId = '', sessionId = '', hash = ''] = long.split(':');
  expect(() => deriveExecutionId({ projectId, sessionId, turnIndex: hash as never })).toThrow('turnIndex');
  expect(deriveExecutionId({ projectId, sessionId: `${sessionId}:${hash}`, turnIndex: 1 })).not.toBe(long);
});

test('every problem is named at once', () => {
  const error = (() => {
    try {
      return deriveExecutionId({ projectId: '', sessionId: '\uD800', turnIndex: -1 });
    } catch (thrown) {
      return thrown;
    }
  })();
  expect(error).toMatchObject({
    code: 'validation',
    details: [{ path: 'projectId' }, { path: 'sessionId' }, { path: 'turnIndex' }],
  });
});
