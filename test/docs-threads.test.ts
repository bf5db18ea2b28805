import { argumentsOf, docsPage, pageCommands, pageFolder, requestOf } from './support/docs-page.ts';
import { millrace } from './producer/cli/support/cli-process.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { helpLines } from '../src/producer/cli/chat/command.ts';
import { postRunKind } from '../src/shared/contract/queues.ts';
import { maxThreadEvents, threadEventBody } from '../src/shared/contract/thread/thread.ts';
import { runRequest } from '../src/shared/contract/run.ts';
import { threadItem, threadView } from '../src/shared/contract/thread/thread-items.ts';
import { aThread, titled } from './producer/support/threads.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { codeBlocks, firstCells } from './support/markdown.ts';

const page = docsPage('threads.md');
const thread = 'customer-42';

test('every request on the page about threads is one that the producer answers', async () => {
  const world = await serverWorld();
  await aThread(world, thread);
  const requests = pageCommands(page, 'curl');
  expect(requests.length).toBeGreaterThan(8);
  for (const command of requests) {
    const { method, path, headers, body } = requestOf(command);
    const { status } = await world.send(method, path, body, headers);
    expect([command, status]).toEqual([command, path === '/v1/runs' ? 202 : 200]);
  }
});

test('every command on the page about threads is one that there is', async () => {
  const world = await serverWorld();
  const env = { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: world.prefix };
  const lines = pageCommands(page, 'millrace');
  expect(lines.length).toBeGreaterThan(6);
  for (const command of lines) {
    await aThread(world, thread, `run-${lines.indexOf(command)}`);
    await titled(world, thread, 'Order 7');
    const { code, stdout, stderr } = await millrace(argumentsOf(command), { env });
    expect([command, code, stderr]).toEqual([command, 0, expect.not.stringContaining('error')]);
    expect(stdout).not.toBe('');
  }
});

test('the program on the page about threads reads and names one', async () => {
  const world = await serverWorld();
  await aThread(world, thread);
  const file = join(pageFolder({ inCheckout: true }), 'read.ts');
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
