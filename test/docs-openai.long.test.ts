import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { chatFields } from '../src/producer/openai/chat-request.ts';
import { extras } from '../src/producer/openai/extras.ts';
import { treatmentOf } from '../src/producer/openai/fields.ts';
import { responseFields } from '../src/producer/openai/response-request.ts';
import { scriptedModel } from '../src/testing/scripted-model.ts';
import { always } from '../src/testing/scripts.ts';
import { defineAgent, startWorker } from '../src/worker/index.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { docsPage, pageCommands, pageFolder, requestOf } from './support/docs-page.ts';
import { codeBlocks, tableRows } from './support/markdown.ts';
import { openaiForPython } from './support/openai-python.ts';
import { withoutPython } from './support/python.ts';

const page = docsPage('openai.md');
const text = 'It is on its way.';
const own = 'http://127.0.0.1:8080';

async function answering() {
  const world = await serverWorld();
  const agents = [defineAgent({ id: 'support', model: 'gpt-5.2-mini' })];
  const redis = inject('redisUrl');
  const worker = await startWorker({ redis, prefix: world.prefix, agents, provider: scriptedModel(always(text)) });
  onTestFinished(() => worker.stop(1_000));
  return world;
}

/** Asynchronously, because the server is in this process. */
async function outputOf(command: string, args: readonly string[]): Promise<string> {
  const { execFile } = await import('node:child_process');
  const { promisify } = await import('node:util');
  return (await promisify(execFile)(command, [...args], { timeout: 60_000 })).stdout;
}

test('the programs in TypeScript print the answer of the agent', async () => {
  const { url } = await answering();
  const folder = pageFolder({ inCheckout: true });
  const programs = codeBlocks(page, 'ts');
  expect(programs).toHaveLength(2);
  for (const code of programs) {
    const file = join(folder, /^\/\/ (\S+)\n/.exec(code)?.[1] ?? 'no-name.ts');
    writeFileSync(file, code.replace(own, url));
    expect((await outputOf(process.execPath, [file])).trim()).toBe(text);
  }
});

test.skipIf(withoutPython !== undefined)(`the program in Python prints the answer of the agent`, async () => {
  const { url } = await answering();
  const file = join(pageFolder(), 'ask.py');
  writeFileSync(file, (codeBlocks(page, 'python')[0] ?? '').replace(own, url));
  expect((await outputOf(openaiForPython(), [file])).trim()).toBe(text);
});

test('the requests of the page are answered, and the error is the one that is shown', async () => {
  const { send } = await answering();
  const requests = pageCommands(page, 'curl').map(requestOf);
  expect(requests).toHaveLength(3);
  for (const { method, path, headers, body } of requests)
    expect(await send(method, path, body, headers)).toMatchObject({ status: 200 });
  const tools = [{ type: 'function', function: { name: 'f' } }];
  const messages = [{ role: 'user', content: 'Hi' }];
  const { body } = await send('POST', '/v1/chat/completions', { model: 'support', messages, tools });
  const { details: _, ...error } = body.error;
  expect({ error }).toEqual(JSON.parse(codeBlocks(page, 'json')[0] ?? ''));
});

const deciders = { mapped: 'mapped', agent: 'the agent', refused: 'refused' };

test.each([
  ['Of `chat.completions`', chatFields],
  ['Of `responses`', responseFields],
])('the table %s has every field and what becomes of it', (heading, fields) => {
  const rows = Object.entries(fields).map(([name, schema]) => {
    const { kind, why } = treatmentOf(schema) ?? { kind: 'refused', why: 'nothing is said about it' };
    return [`\`${name}\``, deciders[kind], why];
  });
  expect(tableRows(page, heading)).toEqual(rows);
});

test('the table of extras has every key', () => {
  const rows = Object.entries(extras.shape).map(([name, schema]) => [`\`${name}\``, schema.description]);
  expect(tableRows(page, 'Extras in metadata')).toEqual(rows);
});

test('the page shows each client in at most ten lines', () => {
  const clients = [codeBlocks(page, 'ts')[0], codeBlocks(page, 'python')[0], codeBlocks(page, 'sh')[0]];
  for (const code of clients) expect((code ?? '').trim().split('\n').length).toBeLessThanOrEqual(10);
});
