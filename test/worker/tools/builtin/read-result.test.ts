import * as fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLog } from '../../../../src/shared/base/log.ts';
import { maxScannedChars } from '../../../../src/worker/guards/sanitise.ts';
import type { Artifacts } from '../../../../src/shared/state/results/artifacts.ts';
import { inMemoryArtifacts } from '../../../../src/worker/local/stores/in-memory-results.ts';
import { boundOf } from '../../../../src/worker/tools/execute/fit.ts';
import { createReadResultTool } from '../../../../src/worker/tools/builtin/read-result.ts';
import type { ResultReader } from '../../../../src/worker/tools/source.ts';
import { createSpillReader, spillOf } from '../../../../src/worker/tools/execute/spill.ts';
import { ToolError } from '../../../../src/worker/tools/tool-error.ts';
import type { ResultOrigin, ToolOutput } from '../../../../src/worker/tools/tool.ts';
import { callTool, valueOf } from '../execute/context.ts';

interface Page {
  readonly content: string;
  readonly offset: number;
  readonly bytes: number;
  readonly totalBytes: number;
  readonly eof: boolean;
}

const run = '01KAPN3YV8Q2T5W7X9Z0A1B2C3';
const otherRun = '01KAPN3YV8Q2T5W7X9Z0A1B2C4';
const origin: ResultOrigin = {
  toolName: 'report',
  trust: 'mcp-derived',
  sensitivity: 'internal',
  inboundSanitization: 'block',
};

let artifacts: Artifacts;

beforeEach(() => {
  artifacts = inMemoryArtifacts({ maxBytes: 16_000_000, maxRunBytes: 64_000_000 }, systemClock);
});

const keep = (text: string, runId = run, from: ResultOrigin = origin) =>
  spillOf(artifacts, runId, silentLog).put(text, from);
const tool = (...more: ResultReader[]) => createReadResultTool([createSpillReader(artifacts), ...more]);

async function page(handle: string, args: object = {}, runId = run): Promise<Page> {
  return valueOf(await callTool(tool(), { handle, ...args }, { runId })) as Page;
}

test('pages that follow each other are exactly the text, and the last one says so', async () => {
  const text = Array.from({ length: 40_000 }, (_, i) => `${i}: Größe 漢字 😀\n`).join('');
  const handle = await keep(text);
  let [read, offset] = ['', 0];
  for (;;) {
    const part = await page(handle, { offset });
    expect(part).toMatchObject({ offset, totalBytes: Buffer.byteLength(text), bytes: Buffer.byteLength(part.content) });
    read += part.content;
    offset += part.bytes;
    if (part.eof) break;
    expect(part.bytes).toBeGreaterThanOrEqual(65_536);
  }
  expect(read === text).toBe(true);
  expect(offset).toBe(Buffer.byteLength(text));
});

test('however long the pages are, and wherever they begin, no character is lost, broken or shown twice', async () => {
  const text = fc.array(fc.constantFrom('a', 'é', '漢', '😀'), { minLength: 1, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(text, fc.integer({ min: 1, max: 40 }), fc.boolean(), async (characters, length, strides) => {
      const given = characters.join('');
      const handle = await keep(given);
      let read = '';
      for (let offset = 0; ;) {
        const part = await page(handle, { offset, length });
        read += part.content;
        expect(part.bytes).toBeLessThanOrEqual(length + 3);
        offset += strides ? length : part.bytes;
        if (part.eof) break;
      }
      expect(read).toBe(given);
    }),
  );
});

test('lines are read with their ends, before bytes, and up to the end', async () => {
  const handle = await keep('one\ntwo\r\ndrei ß\n\nfive');
  const lines = async (args: object) => (await page(handle, args)).content;
  expect(await lines({ startLine: 2, endLine: 3 })).toBe('two\r\ndrei ß\n');
  expect(await lines({ startLine: 4 })).toBe('\nfive');
  expect(await lines({ endLine: 1 })).toBe('one\n');
  expect(await lines({ startLine: 1, endLine: 1, offset: 5, length: 2 })).toBe('one\n');
  expect(await page(handle, { startLine: 5, endLine: 9 })).toMatchObject({ content: 'five', eof: true });
  expect(await page(handle, { startLine: 2, endLine: 2 })).toMatchObject({ offset: 4, bytes: 5, eof: false });
  expect(await page(handle, { startLine: 9 })).toMatchObject({ content: '', bytes: 0, eof: true });
});

test('lines far inside a large text are found, and a long one goes on at its bytes', async () => {
  const text = Array.from({ length: 100_000 }, (_, i) => `line ${i + 1}\n`).join('') + 'ß'.repeat(100_000);
  const handle = await keep(text);
  expect((await page(handle, { startLine: 54_321, endLine: 54_322 })).content).toBe('line 54321\nline 54322\n');
  const first = await page(handle, { startLine: 100_001, maxBytes: 1_001 });
  expect(first).toMatchObject({ content: 'ß'.repeat(501), bytes: 1_002, eof: false });
  const next = await page(handle, { offset: first.offset + first.bytes, maxBytes: 1_000_000 });
  expect(first.content + next.content).toBe('ß'.repeat(100_000));
  expect(next.eof).toBe(true);
});

test('line ranges of any text are its lines', async () => {
  const text = fc.array(fc.constantFrom('a', '漢', '\n'), { minLength: 1, maxLength: 40 });
  const line = fc.integer({ min: 1, max: 12 });
  await fc.assert(
    fc.asyncProperty(text, line, line, async (characters, a, b) => {
      const given = characters.join('');
      const [startLine, endLine] = [Math.min(a, b), Math.max(a, b)];
      const lines = given.match(/[^\n]*\n|[^\n]+$/g) ?? [];
      const { content } = await page(await keep(given), { startLine, endLine });
      expect(content).toBe(lines.slice(startLine - 1, endLine).join(''));
    }),
  );
});

test('of what is not trusted a page is no larger than what is looked through, and the pages are still the text', async () => {
  const text = '"\n'.repeat(200_000);
  const handle = await keep(text);
  let [read, offset] = ['', 0];
  for (;;) {
    const part = await page(handle, { offset, maxBytes: 2 ** 20 });
    expect(JSON.stringify(part).length).toBeLessThanOrEqual(maxScannedChars);
    read += part.content;
    offset += part.bytes;
    if (part.eof) break;
    expect(part.bytes).toBeGreaterThan(30_000);
  }
  expect(read === text).toBe(true);
});

test('a page of a megabyte passes its own bound whole, whatever is in it', async () => {
  const handle = await keep('\u0001'.repeat(2 ** 20), run, { ...origin, inboundSanitization: 'pass' });
  const output = (await callTool(tool(), { handle, maxBytes: 2 ** 20 })).output as ToolOutput;
  expect(output.value).toMatchObject({ bytes: 2 ** 20, eof: true });
  expect(Buffer.byteLength(JSON.stringify(output.value))).toBeLessThanOrEqual(boundOf(tool()));
});

test.each([
  [{ maxBytes: 2 ** 20 + 1 }],
  [{ maxBytes: 0 }],
  [{ offset: -1 }],
  [{ length: 0 }],
  [{ startLine: 0 }],
  [{ offset: 1.5 }],
  [{ page: 2 }],
])('arguments like %j are not right', async (wrong) => {
  expect(await tool().check({ handle: 'spill:x', ...wrong })).toMatchObject({ ok: false });
});

test('a range of lines that ends before it begins is not right', async () => {
  const handle = await keep('text');
  await expect(page(handle, { startLine: 3, endLine: 2 })).rejects.toMatchObject({ kind: 'invalid_input' });
});

test('what is read comes from the tool that made it', async () => {
  const { output } = await callTool(tool(), { handle: await keep('text') });
  expect((output as ToolOutput).origin).toEqual(origin);
});

const digits = '0123456789abcdef0123456789abcdef';

test.each([
  ['empty', ''],
  ['only a scheme', 'spill:'],
  ['made up', `spill:${digits}`],
  ['another scheme', `file:${digits}`],
  ['no scheme', digits],
  ['a URL', `https://example.com/${digits}`],
  ['above its folder', 'spill:../one'],
  ['above its folder, encoded', 'spill:%2e%2e%2fone'],
  ['another run by path', `spill:../../${otherRun}/spill/${digits}`],
  ['an absolute path', 'spill:/etc/passwd'],
  ['a plain absolute path', '/etc/passwd'],
  ['with a NUL', `spill:${digits}\0`],
  ['with a NUL in front', `\0spill:${digits}`],
  ['with a line end', `spill:${digits}\n`],
  ['the count beside the results', 'spill:#used'],
  ['a temporary file', 'spill:.tmp-x'],
  ['a file beside', `spill:${digits}.json`],
  ['in capitals', `spill:${digits.toUpperCase()}`],
  ['with another scheme’s case', `SPILL:${digits}`],
  ['huge', `spill:${'0'.repeat(1_000_000)}`],
  ['a wildcard', 'spill:*'],
  ['with braces of a key', `spill:{${otherRun}}`],
])('a handle that is %s is spill_handle_invalid, and is not repeated', async (_, handle) => {
  await artifacts.put(run, 'one', Buffer.from('reachable by its name alone'), origin);
  const failure = await page(handle).catch((error: unknown) => error);
  expect(failure).toMatchObject({ name: 'ToolError', kind: 'spill_handle_invalid' });
  expect((failure as Error).message).toMatch(
    /^(this is no handle|this handle is not known here|this run has no result of this handle)$/,
  );
});

test('a handle of one run is nothing in another, though both kept the same text', async () => {
  const [mine, theirs] = [await keep('the same'), await keep('the same', otherRun)];
  expect(mine).not.toBe(theirs);
  expect((await page(mine)).content).toBe('the same');
  await expect(page(mine, {}, otherRun)).rejects.toMatchObject({ kind: 'spill_handle_invalid' });
  await artifacts.drop(run);
  await expect(page(mine)).rejects.toMatchObject({ kind: 'spill_handle_invalid' });
});

test('the same result again takes no more room; of another trust it is another result', async () => {
  const spill = spillOf(artifacts, run, silentLog);
  const first = await spill.put('text', origin);
  expect(await spill.put('text', origin)).toBe(first);
  const second = await spill.put('text', { ...origin, trust: 'built-in' });
  expect(second).not.toBe(first);
  expect(((await callTool(tool(), { handle: first })).output as ToolOutput).origin?.trust).toBe('mcp-derived');
});

test('readers are asked in order, after the one for kept results, and each leaves what is not its own', async () => {
  const asked: string[] = [];
  const reader =
    (scheme: string): ResultReader =>
    async ({ handle, range, maxBytes, tenant }) => {
      asked.push(`${scheme} ${tenant}`);
      if (!handle.startsWith(`${scheme}:`)) return undefined;
      expect([range, maxBytes]).toEqual([{ kind: 'bytes', offset: 2, length: 3 }, 65_536]);
      return { content: 'abc', bytes: 3, totalBytes: 9, eof: false, trust: 'web-search', toolName: 'browser' };
    };
  const readers = [reader('mem'), reader('note')];
  const { output } = await callTool(tool(...readers), { handle: 'note://x', offset: 2, length: 3 });
  expect(asked).toEqual(['mem acme', 'note acme']);
  expect(output).toMatchObject({
    value: { content: 'abc', bytes: 3, totalBytes: 9, eof: false },
    origin: { toolName: 'browser', trust: 'web-search', sensitivity: 'public' },
  });
  await expect(callTool(tool(...readers), { handle: 'other://x' })).rejects.toMatchObject({
    kind: 'spill_handle_invalid',
  });
});

test.each([
  ['empty', ''],
  ['with a NUL', 'mem://x\0'],
  ['with a line end', 'mem://x\ny'],
  ['too long', `mem://${'x'.repeat(3_000)}`],
])('a handle that is %s reaches no reader', async (_, handle) => {
  const anything: ResultReader = () => Promise.reject(new Error('not to be asked'));
  await expect(callTool(tool(anything), { handle })).rejects.toMatchObject({ kind: 'spill_handle_invalid' });
});

test('a reader that refuses a handle of its own has the last word', async () => {
  const refusing: ResultReader = () => Promise.reject(new ToolError('spill_handle_invalid', 'gone'));
  const other: ResultReader = () => Promise.reject(new Error('not to be asked'));
  await expect(callTool(tool(refusing, other), { handle: 'mem://x' })).rejects.toThrow('gone');
});

test('a result that cannot be kept is logged for the operator, without its text', async () => {
  const lines: unknown[] = [];
  const log = { ...silentLog, warn: (...args: unknown[]) => void lines.push(args) } as typeof silentLog;
  const small = inMemoryArtifacts({ maxBytes: 3, maxRunBytes: 3 }, systemClock);
  await expect(spillOf(small, run, log).put('too long', origin)).rejects.toMatchObject({ code: 'payload_too_large' });
  expect(lines).toHaveLength(1);
  expect(JSON.stringify(lines)).not.toContain('too long');
});
