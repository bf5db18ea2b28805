import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createReadFileTool } from '../../../../src/worker/tools/builtin/read-file.ts';
import { ToolError } from '../../../../src/worker/tools/tool-error.ts';
import type { HostContext, Tool } from '../../../../src/worker/tools/tool.ts';
import { callTool } from '../execute/context.ts';
import { rounds } from '../../../support/lane.ts';

interface Page {
  readonly content?: string;
  readonly note?: string;
  readonly offset: number;
  readonly bytes: number;
  readonly totalBytes: number;
  readonly eof: boolean;
}

/** A folder `root` with a file in it, and beside it one that no tool may read. */
function folders() {
  const base = mkdtempSync(join(tmpdir(), 'millrace-files-'));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
  const [root, evil] = [join(base, 'root'), join(base, 'root-evil')];
  mkdirSync(join(root, 'sub'), { recursive: true });
  mkdirSync(evil);
  writeFileSync(join(root, 'a.txt'), 'inside');
  writeFileSync(join(root, 'sub/b.txt'), 'below');
  writeFileSync(join(evil, 'secret.txt'), 'outside');
  writeFileSync(join(base, 'secret.txt'), 'outside');
  return { base, root, evil };
}

async function read(tool: Tool, path: string, range: object = {}): Promise<Page> {
  return (await callTool(tool, { path, ...range })).output as Page;
}

/** How a call failed, or its page. */
async function kindOf(tool: Tool, path: unknown): Promise<unknown> {
  try {
    // Past the check of arguments, which would refuse some of these already.
    return await tool.execute({ path, offset: 0, length: 100 }, {
      signal: new AbortController().signal,
    } as HostContext);
  } catch (error) {
    if (error instanceof ToolError) return error.kind;
    throw error;
  }
}

test('a file is read, also from a folder below', async () => {
  const tool = createReadFileTool({ root: folders().root });
  expect(await read(tool, 'a.txt')).toEqual({ content: 'inside', offset: 0, bytes: 6, totalBytes: 6, eof: true });
  expect(await read(tool, './sub/../sub//b.txt')).toMatchObject({ content: 'below' });
});

describe('nothing outside is read', () => {
  test.each([
    ['the folder above', '../secret.txt'],
    ['a folder whose name begins the same', '../root-evil/secret.txt'],
    ['a way down and up again', 'sub/../../secret.txt'],
    ['many ways up', '../'.repeat(40) + 'etc/passwd'],
    ['an address of a process', '../../../../../../proc/self/environ'],
    ['a link to a file', 'link.txt'],
    ['a link to a file inside', 'inner.txt'],
    ['a link that leads nowhere', 'nowhere.txt'],
    ['a linked folder', 'linked/secret.txt'],
    ['a second name of a file', 'hard.txt'],
    ['a folder', 'sub'],
    ['a folder with a slash', 'sub/'],
    ['the folder itself', '.'],
    ['a pipe', 'pipe'],
    ['a file beyond the bound', 'sparse.bin'],
    ['a link to a device', 'zero'],
  ])('by %s: %s', async (_, path) => {
    const { base, root, evil } = folders();
    symlinkSync(join(evil, 'secret.txt'), join(root, 'link.txt'));
    symlinkSync('a.txt', join(root, 'inner.txt'));
    symlinkSync('missing', join(root, 'nowhere.txt'));
    symlinkSync('/dev/zero', join(root, 'zero'));
    symlinkSync(evil, join(root, 'linked'));
    linkSync(join(base, 'secret.txt'), join(root, 'hard.txt'));
    execFileSync('mkfifo', [join(root, 'pipe')]);
    writeFileSync(join(root, 'sparse.bin'), '');
    truncateSync(join(root, 'sparse.bin'), 5 * 1024 ** 3);
    expect(await kindOf(createReadFileTool({ root }), path)).toBe('capability_blocked');
  });

  test.each<[string, unknown]>([
    ['no text', 7],
    ['a list', ['a.txt']],
    ['bytes', Buffer.from('a.txt')],
    ['a URL', new URL('file:///etc/passwd')],
    ['a zero byte', 'a.txt\0.md'],
    ['a path from the root', '/etc/passwd'],
    ['more than 1,024 characters', `${'./'.repeat(600)}a.txt`],
  ])('by a path that is %s', async (_, path) => {
    expect(await kindOf(createReadFileTool({ root: folders().root }), path)).toBe('invalid_input');
  });

  test('by any path made of dots, slashes and names', async () => {
    const { root } = folders();
    symlinkSync('..', join(root, 'up'));
    const tool = createReadFileTool({ root });
    const part = fc.constantFrom('..', '.', '', 'sub', 'up', 'a.txt', 'root', 'root-evil', 'secret.txt', 'b.txt');
    await fc.assert(
      fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 6 }), async (parts) => {
        const found = await kindOf(tool, parts.join('/'));
        expect(JSON.stringify(found)).not.toContain('outside');
      }),
      { numRuns: rounds({ fast: 200, all: 1_000 }) },
    );
  });

  test('while a folder is swapped with a link, again and again', async () => {
    const { root, evil } = folders();
    const folder = join(root, 'swapped');
    mkdirSync(folder);
    writeFileSync(join(folder, 'secret.txt'), 'inside');
    const stop = new Int32Array(new SharedArrayBuffer(4));
    const fixture = new URL('../../../fixtures/files/swap.ts', import.meta.url);
    const thread = new Worker(fixture, { workerData: { folder, other: evil, stop } });
    await once(thread, 'online');
    const tool = createReadFileTool({ root });
    const seen = new Map<unknown, number>();
    const enough = () => (seen.get('inside') ?? 0) > 20 && (seen.get('capability_blocked') ?? 0) > 20;
    for (let tries = 0; tries < 200_000 && !(tries > 5_000 && enough()); tries++) {
      const found = await kindOf(tool, 'swapped/secret.txt');
      const text = typeof found === 'object' ? (found as Page).content : found;
      seen.set(text, (seen.get(text) ?? 0) + 1);
    }
    Atomics.store(stop, 0, 1);
    await once(thread, 'exit');
    expect(enough()).toBe(true);
    expect(new Set(seen.keys())).toEqual(new Set(['inside', 'capability_blocked', 'invalid_input']));
  });
});

describe('a page', () => {
  test('ends and begins between characters, and the pages together are the file', async () => {
    const { root } = folders();
    const tool = createReadFileTool({ root });
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }).filter((text) => !text.includes('\0')),
        fc.integer({ min: 1, max: 9 }),
        async (text, length) => {
          const whole = text.replaceAll('\ufeff', 'x').toWellFormed();
          writeFileSync(join(root, 'text.txt'), whole);
          const pages: Page[] = [];
          for (let offset = 0, eof = false; !eof;) {
            const page = await read(tool, 'text.txt', { offset, length });
            pages.push(page);
            expect(page.totalBytes).toBe(Buffer.byteLength(whole));
            offset = page.offset + page.bytes;
            eof = page.eof;
          }
          expect(pages.map(({ content }) => content).join('')).toBe(whole);
        },
      ),
      { numRuns: rounds({ fast: 40, all: 200 }) },
    );
  });

  test('that begins within a character begins after it, and behind the end is empty', async () => {
    const { root } = folders();
    writeFileSync(join(root, 'text.txt'), 'ä€b');
    const tool = createReadFileTool({ root });
    expect(await read(tool, 'text.txt', { offset: 1, length: 1 })).toMatchObject({ content: '', eof: false });
    expect(await read(tool, 'text.txt', { offset: 3 })).toMatchObject({ content: 'b', offset: 5, eof: true });
    expect(await read(tool, 'text.txt', { offset: 99 })).toMatchObject({ content: '', bytes: 0, eof: true });
  });

  test('of what is not text is a note', async () => {
    const { root } = folders();
    writeFileSync(join(root, 'latin1.txt'), Buffer.from([0xe4, 0xe4, 0xe4, 0xe4, 0x20]));
    writeFileSync(join(root, 'zeros.bin'), Buffer.alloc(10));
    const tool = createReadFileTool({ root });
    expect(await read(tool, 'latin1.txt')).toEqual({ note: 'not text', offset: 0, bytes: 5, totalBytes: 5, eof: true });
    expect(await read(tool, 'zeros.bin')).toMatchObject({ note: 'not text', totalBytes: 10 });
  });

  test('of an empty file is empty, and of a file that is not there an error', async () => {
    const { root } = folders();
    writeFileSync(join(root, 'empty.txt'), '');
    const tool = createReadFileTool({ root });
    expect(await read(tool, 'empty.txt')).toMatchObject({ content: '', totalBytes: 0, eof: true });
    expect(await kindOf(tool, 'missing.txt')).toBe('invalid_input');
    expect(await kindOf(tool, 'a.txt/b')).toBe('invalid_input');
  });

  test('has 1 MiB at most', async () => {
    const tool = createReadFileTool({ root: folders().root });
    expect((await tool.check({ path: 'a.txt', length: 1024 * 1024 + 1 })).ok).toBe(false);
    expect((await tool.check({ path: 'a.txt', offset: -1 })).ok).toBe(false);
  });
});

describe('the folder of an agent', () => {
  test('is the part below the folder of the worker', async () => {
    const { root } = folders();
    const tool = createReadFileTool({ root, scope: 'sub' });
    expect(await read(tool, 'b.txt')).toMatchObject({ content: 'below' });
    expect(await kindOf(tool, '../a.txt')).toBe('capability_blocked');
  });

  test('may be reached over a link of the operator', async () => {
    const { base, root } = folders();
    symlinkSync(root, join(base, 'current'));
    const tool = createReadFileTool({ root: join(base, 'current') });
    expect(await read(tool, 'a.txt')).toMatchObject({ content: 'inside' });
  });

  test.each([
    ['no folder of the worker', undefined, undefined, /MILLRACE_FILES is not set/],
    ['a folder of the worker that is not there', 'missing', undefined, /there is no folder .*MILLRACE_FILES/],
    ['a folder of the worker that is a file', 'root/a.txt', undefined, /there is no folder .*MILLRACE_FILES/],
    ['a folder that is not there', 'root', 'missing', /there is no folder missing below MILLRACE_FILES/],
    ['a folder that is a file', 'root', 'a.txt', /there is no folder a\.txt below MILLRACE_FILES/],
    ['a folder above', 'root', '../root-evil', /is not a folder below MILLRACE_FILES/],
    ['a folder from the root', 'root', '/etc', /is not a folder below MILLRACE_FILES/],
    ['a link that leads out', 'root', 'out', /leads out of MILLRACE_FILES/],
  ])('is refused at once with %s', (_, root, scope, message) => {
    const { base } = folders();
    symlinkSync(join(base, 'root-evil'), join(base, 'root/out'));
    const create = () => createReadFileTool({ root: root && join(base, root), scope });
    expect(create).toThrow(message);
    expect(create).toThrow(expect.objectContaining({ code: 'invalid_config' }));
  });
});
