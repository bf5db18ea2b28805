import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import type { Cli } from '../src/producer/cli/cli.ts';
import { helpLines } from '../src/producer/cli/chat/command.ts';
import { runCli } from '../src/producer/cli/program.ts';
import { postRunKind } from '../src/shared/contract/postrun.ts';
import { maxThreadEvents, threadEventBody } from '../src/shared/contract/thread/thread-event.ts';
import { runRequest } from '../src/shared/contract/run.ts';
import { threadItem, threadView } from '../src/shared/contract/thread/thread-items.ts';
import { aThread, titled } from './producer/support/threads.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { codeBlocks, firstCells } from './support/markdown.ts';

const root = join(import.meta.dirname, '..');
const page = readFileSync(join(root, 'docs/threads.md'), 'utf8');
const thread = 'customer-42';

/** The commands of the page that begin with a word. */
function commands(word: string): string[] {
  return codeBlocks(page, 'sh').flatMap((code) =>
    code
      .replaceAll(' \\\n ', '')
      .split('\n')
      .filter((line) => line.split(' ')[0] === word),
  );
}

function argumentsOf(command: string): string[] {
  const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
  return words.slice(1);
}

test('every request on the page about threads is one that the producer answers', async () => {
  const world = await serverWorld();
  await aThread(world, thread);
  const requests = commands('curl');
  expect(requests.length).toBeGreaterThan(8);
  for (const command of requests) {
    const args = argumentsOf(command);
    const after = (option: string) => (args.includes(option) ? args[args.indexOf(option) + 1] : undefined);
    const path =
      args.find((arg) => arg.startsWith('http://127.0.0.1:8080'))?.slice('http://127.0.0.1:8080'.length) ?? '';
    const body = after('-d');
    const method = after('-X') ?? (body === undefined ? 'GET' : 'POST');
    const { status } = await world.send(
      method,
      path,
      body,
      body === undefined ? {} : { 'content-type': 'application/json' },
    );
    expect([command, status]).toEqual([command, path === '/v1/runs' ? 202 : 200]);
  }
});

test('every command on the page about threads is one that there is', async () => {
  const world = await serverWorld();
  const env = { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: world.prefix };
  const lines = commands('millrace');
  expect(lines.length).toBeGreaterThan(6);
  for (const command of lines) {
    await aThread(world, thread, `run-${lines.indexOf(command)}`);
    await titled(world, thread, 'Order 7');
    const [stdout, stderr, stdin] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const { signal: interrupted } = new AbortController();
    const cli = { env, cwd: tmpdir(), root, stdin, stdout, stderr, interrupted } as unknown as Cli;
    const code = await runCli(argumentsOf(command.split(' > ')[0] ?? ''), cli);
    expect([command, code, String(stderr.read() ?? '')]).toEqual([command, 0, expect.not.stringContaining('error')]);
    expect(String(stdout.read() ?? '')).not.toBe('');
  }
});

test('the program on the page about threads reads and names one', async () => {
  const world = await serverWorld();
  await aThread(world, thread);
  const folder = join(root, '.vitest');
  mkdirSync(folder, { recursive: true });
  const file = join(mkdtempSync(join(folder, 'threads-page-')), 'read.ts');
  onTestFinished(() => rmSync(join(file, '..'), { recursive: true, force: true }));
  const code = codeBlocks(page, 'ts').find((block) => block.includes('new Millrace(')) ?? '';
  writeFileSync(file, code.replace('{ redis:', `{ prefix: '${world.prefix}', redis:`));
  vi.stubEnv('REDIS_URL', inject('redisUrl'));
  const said = vi.spyOn(console, 'log').mockReturnValue();
  onTestFinished(() => void vi.unstubAllEnvs());
  onTestFinished(() => said.mockRestore());
  await import(pathToFileURL(file).href);
  expect(said.mock.calls).toEqual([['assistant: It is shipped.'], ['user: Where is order 7?']]);
  expect(await world.mill.threads.get(thread)).toMatchObject({ title: 'Order 7' });
});

test('the thread and the kinds of items on the page are those of the code', () => {
  const [shown = ''] = codeBlocks(page, 'json');
  expect(threadView.strict().parse(JSON.parse(shown))).toMatchObject({ threadId: thread });
  const kinds = threadItem.options.map((option) => option.shape.kind.value);
  expect(firstCells(page, 'Reading')).toEqual(kinds);
});

test('the events on the page are those of the code', () => {
  const types = threadEventBody.options.map((option) => option.shape.type.value);
  expect(firstCells(page, 'After an answer')).toEqual(types);
  for (const kind of postRunKind.options) expect(page).toContain(`\`${kind}\``);
  expect(page).toContain(`the newest ${maxThreadEvents.toLocaleString('en')} of a thread are kept`);
});

test('the page has exactly the ways to treat a busy thread, and the commands of the chat, that there are', () => {
  expect(firstCells(page, 'While another run is running')).toEqual(runRequest.shape.onBusy.unwrap().options);
  const forms = helpLines.map((line) => line.split('  ')[0] ?? '');
  expect(firstCells(page, 'In a terminal').toSorted()).toEqual(forms.toSorted());
});
