import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { keepTail } from '../../../../src/shared/base/text.ts';
import { maxResultBytes, fitResult, type FittedTool } from '../../../../src/worker/tools/execute/fit.ts';
import type { Spill } from '../../../../src/worker/tools/execute/batch.ts';

const never = new AbortController().signal;
const plain: FittedTool = {
  name: 'report',
  maxResultTokens: 100,
  truncationStrategy: 'middle',
  sensitivity: 'public',
  trust: 'user-defined',
};
const megabyte = 'x'.repeat(1_000_000);

interface Kept extends Spill {
  readonly bodies: string[];
  readonly origins: unknown[];
}

function spill(): Kept {
  const [bodies, origins]: [string[], unknown[]] = [[], []];
  return {
    bodies,
    origins,
    async put(body, origin) {
      bodies.push(body);
      origins.push(origin);
      return `spill:${'0'.repeat(31)}${bodies.length}`;
    },
  };
}

test.each(['middle', 'tail', 'summarize', 'spill-to-file'] as const)(
  'a result within its bound stays as it is (%s)',
  async (truncationStrategy) => {
    const kept = spill();
    const tool = { ...plain, truncationStrategy, summarize: () => 'shorter' };
    expect(await fitResult('x'.repeat(400), tool, kept, never)).toEqual({ content: 'x'.repeat(400) });
    expect(kept.bodies).toEqual([]);
  },
);

test.each(['middle', 'tail', 'summarize', 'spill-to-file'] as const)(
  'a result of a megabyte is cut to the bound, with a mark (%s)',
  async (truncationStrategy) => {
    const { content } = await fitResult(megabyte, { ...plain, truncationStrategy }, spill(), never);
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(400);
    expect(content).toContain('1000000 bytes');
  },
);

test('tail keeps the end', async () => {
  const tool = { ...plain, truncationStrategy: 'tail' } as const;
  const { content } = await fitResult(`begin${megabyte}the end`, tool, undefined, never);
  expect(content).toMatch(/^\[… 1000012 bytes in all, the beginning was cut …\]\nx+the end$/);
});

test('no tail has half a character or is over its bound', () => {
  const text = fc.array(fc.constantFrom('a', 'é', '漢', '😀', '\ud800'), { minLength: 0, maxLength: 400 });
  fc.assert(
    fc.property(text, fc.integer({ min: 0, max: 1_200 }), (characters, bytes) => {
      const given = characters.join('').toWellFormed();
      const cut = keepTail(given, bytes);
      expect(cut.isWellFormed()).toBe(true);
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes);
      expect(given.endsWith(cut.replace(/^\[…[^\n]*\n/, ''))).toBe(true);
    }),
  );
});

test('spill-to-file keeps all of it, and shows a beginning, an end and the handle', async () => {
  const kept = spill();
  const tool = {
    ...plain,
    truncationStrategy: 'spill-to-file',
    sensitivity: 'internal',
    trust: 'mcp-derived',
    inboundSanitization: 'block',
  } as const;
  const body = JSON.stringify({ rows: Array.from({ length: 50_000 }, (_, i) => ({ i, name: `Größe ${i}` })) });
  const { content, handle } = await fitResult(body, tool, kept, never);
  expect(kept.bodies).toEqual([body]);
  expect(kept.origins).toEqual([
    { toolName: 'report', trust: 'mcp-derived', sensitivity: 'internal', inboundSanitization: 'block' },
  ]);
  expect(handle).toBe('spill:00000000000000000000000000000001');
  expect(Buffer.byteLength(content)).toBeLessThanOrEqual(400);
  expect(content).toMatch(/^{"rows":\[{"i":0/);
  expect(content).toContain(
    `All ${Buffer.byteLength(body)} bytes are kept. Read on with read_result, handle "${handle}".`,
  );
});

test('a bound that leaves no room for the handle still shows it', async () => {
  const tool = { ...plain, truncationStrategy: 'spill-to-file', maxResultTokens: 5 } as const;
  const { content, handle } = await fitResult(megabyte, tool, spill(), never);
  expect(content).toContain(`handle "${handle}"`);
  expect(content).toMatch(/^x{50}/);
  expect(Buffer.byteLength(content)).toBeLessThanOrEqual(256);
});

test('a secret result is never kept', async () => {
  const kept = spill();
  const tool = { ...plain, truncationStrategy: 'spill-to-file', sensitivity: 'secret' } as const;
  const result = await fitResult(megabyte, tool, kept, never);
  expect(kept.bodies).toEqual([]);
  expect(result).toEqual({ content: expect.stringContaining('the middle was cut') as string });
});

test('without a store, or with one that fails, the middle is cut', async () => {
  const tool = { ...plain, truncationStrategy: 'spill-to-file' } as const;
  const middle = await fitResult(megabyte, plain, undefined, never);
  expect(await fitResult(megabyte, tool, undefined, never)).toEqual(middle);
  const broken: Spill = { put: () => Promise.reject(new Error('full')) };
  expect(await fitResult(megabyte, tool, broken, never)).toEqual(middle);
  const throwing: Spill = {
    put: () => {
      throw new Error('at once');
    },
  };
  expect(await fitResult(megabyte, tool, throwing, never)).toEqual(middle);
});

test('a store that never answers is left when the call is aborted', async () => {
  const stop = new AbortController();
  const hanging: Spill = {
    put() {
      stop.abort();
      return new Promise(() => {});
    },
  };
  const tool = { ...plain, truncationStrategy: 'spill-to-file' } as const;
  const middle = await fitResult(megabyte, plain, undefined, never);
  expect(await fitResult(megabyte, tool, hanging, stop.signal)).toEqual(middle);
});

test('a result that is being kept when its run is stopped has its handle all the same', async () => {
  const stop = new AbortController();
  const { promise: kept, resolve: keep } = Promise.withResolvers<string>();
  const slow: Spill = {
    put() {
      stop.abort();
      setImmediate(keep, 'spill:1');
      return kept;
    },
  };
  const tool = { ...plain, truncationStrategy: 'spill-to-file' } as const;
  expect(await fitResult(megabyte, tool, slow, stop.signal)).toMatchObject({ handle: 'spill:1' });
});

test('summarize shows what the tool makes of it', async () => {
  const tool = { ...plain, truncationStrategy: 'summarize' } as const;
  const summarize = async (text: string) => `${text.length} characters`;
  expect(await fitResult(megabyte, { ...tool, summarize }, undefined, never)).toEqual({
    content: '1000000 characters',
  });
});

test.each([
  ['throws', () => Promise.reject(new Error('no'))],
  ['says too much', () => 'y'.repeat(401)],
  ['says nothing', () => ' '],
  ['answers no text', () => 7 as never],
  ['is not there', undefined],
])('the middle is cut when summarize %s', async (_, summarize) => {
  const tool = { ...plain, truncationStrategy: 'summarize' as const, ...(summarize && { summarize }) };
  expect(await fitResult(megabyte, tool, undefined, never)).toEqual(await fitResult(megabyte, plain, undefined, never));
});

test('a tool with a ceiling of its own is bounded by that one', async () => {
  const tool = { ...plain, maxResultTokens: 0 };
  const sizeOf = async (own: object) =>
    Buffer.byteLength((await fitResult(megabyte, { ...tool, ...own }, undefined, never)).content);
  expect(await sizeOf({})).toBeLessThanOrEqual(maxResultBytes);
  expect(await sizeOf({ maxResultBytes: 2_000_000 })).toBe(1_000_000);
  expect(await sizeOf({ maxResultBytes: 100_000 })).toBeLessThanOrEqual(100_000);
});
