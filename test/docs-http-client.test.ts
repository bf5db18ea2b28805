import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, inject, onTestFinished, test } from 'vitest';
import { sha256 } from '../src/shared/base/ids.ts';
import { scriptedModel } from '../src/testing/scripted-model.ts';
import { always } from '../src/testing/scripts.ts';
import { defineAgent, startWorker } from '../src/worker/index.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { argumentsOf, docsPage, pageCommands, pageFiles, pageFolder } from './support/docs-page.ts';

const page = docsPage('http-client.md');
const text = 'It is on its way.';
const own = 'http://127.0.0.1:8080';

async function answering() {
  const world = await serverWorld({ apiKeys: `${sha256('the-key')}:default:*` });
  const agents = [defineAgent({ id: 'support', model: 'gpt-5.2-mini' })];
  const redis = inject('redisUrl');
  const worker = await startWorker({ redis, prefix: world.prefix, agents, provider: scriptedModel(always(text)) });
  onTestFinished(() => worker.stop(1_000));
  const { folder } = pageFiles(page.replaceAll(own, world.url), pageFolder({ inCheckout: true }));
  const env = { ...process.env, MILLRACE_URL: world.url, MILLRACE_API_KEY: 'the-key' };
  const run = async (args: readonly string[]) =>
    await promisify(execFile)(process.execPath, [...args], { cwd: folder, env, timeout: 60_000 });
  return { ...world, folder, run };
}

test('the program of the page streams an answer with a key', async () => {
  const { run, folder } = await answering();
  const { stdout } = await run(['--import', join(import.meta.dirname, '../scripts/resolve-source.mjs'), 'ask.ts']);
  expect(stdout).toMatch(/^It is on its way\.\ncompleted, \d+ microcents\n$/);
  expect(folder).toContain('millrace-page-');
});

test('the handler of the page answers a request', async () => {
  const { url, folder } = await answering();
  const file = join(folder, 'edge.test-copy.ts');
  const source = pageSource('edge.ts').replace('millrace/client', entry);
  writeFileSync(file, source);
  const { handle } = (await import(pathToFileURL(file).href)) as {
    readonly handle: (request: Request, env: object) => Promise<Response>;
  };
  const asked = new Request('http://edge.example/', { method: 'POST', body: 'Where is order 7?' });
  const answer = await handle(asked, { millrace: url, key: 'the-key' });
  expect([answer.status, await answer.text()]).toEqual([200, text]);
});

const entry = pathToFileURL(join(import.meta.dirname, '../src/producer/client/remote/entry.ts')).href;

function pageSource(name: string): string {
  const [, source = ''] = new RegExp(`\`\`\`ts\\n(// ${name}\\n[\\s\\S]*?)\`\`\``).exec(page) ?? [];
  return source;
}

test('the commands of the page need no Redis', async () => {
  const { run } = await answering();
  const program = join(import.meta.dirname, '../bin/millrace.mjs');
  const [ask = '', list = ''] = pageCommands(page, 'millrace');
  expect((await run([program, ...argumentsOf(ask)])).stdout).toContain(text);
  expect((await run([program, ...argumentsOf(list)])).stderr).toContain('There are no such runs.');
});
