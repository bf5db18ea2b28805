import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import { argumentsOf, docsPage, pageCommands, pageFolder } from './support/docs-page.ts';
import { childEnv } from './support/child-env.ts';
import { root } from './support/scratch-redis.ts';
import { codeBlocks } from './support/markdown.ts';
import { until } from './support/redis.ts';
import { endRun, serverWorld, type ServerWorld } from './producer/http/server-world.ts';
import { CliCommand, millrace } from './producer/cli/support/cli-process.ts';
import { RunWriter } from './producer/support/run-writer.ts';

const page = docsPage('http-client.md');

async function program<T>(name: string): Promise<T> {
  const folder = pageFolder({ inCheckout: true });
  const code = codeBlocks(page, 'ts').find((block) => block.startsWith(`// ${name}\n`));
  writeFileSync(join(folder, name), code ?? `throw new Error('there is no ${name} on the page')`);
  return (await import(pathToFileURL(join(folder, name)).href)) as T;
}

/** Plays the worker of the next run, which has an execution id and so an event more. */
async function answerNext({ mill, redis, keys }: ServerWorld): Promise<string> {
  const [run] = await until('a run to be accepted', async () => {
    const { runs } = await mill.list({ status: 'queued' });
    return runs.length > 0 ? runs : undefined;
  });
  const runId = run?.runId ?? '';
  const writer = new RunWriter(redis, keys, runId, 2);
  await writer.emit([{ type: 'text.delta', delta: 'It is on its way.', model: 'm' }]);
  await endRun(writer);
  return runId;
}

test('the web tier of the page streams the text of a run', async () => {
  const world = await serverWorld();
  vi.stubEnv('MILLRACE_URL', world.url);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { server } = await program<{ server: Server }>('web-tier.ts');
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const asked = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/?q=Where+is+order+7%3F`);
  await answerNext(world);
  expect(await (await asked).text()).toBe('It is on its way.');
});

test('the edge function of the page answers with the text of a run', async () => {
  const world = await serverWorld();
  const edge = await program<{
    handle(request: Request, env: Record<string, string>): Promise<Response>;
  }>('edge.ts');
  const request = new Request('https://edge.example/', { method: 'POST', body: 'Where is order 7?' });
  const answer = edge.handle(request, { millrace: world.url, key: 'sk-any' });
  await answerNext(world);
  expect([(await answer).status, await (await answer).text()]).toEqual([200, 'It is on its way.']);
});

test('the first program of the page prints the text of a run, and how it ended', async () => {
  const world = await serverWorld();
  const folder = pageFolder({ inCheckout: true });
  const code = codeBlocks(page, 'ts').find((block) => block.startsWith('// ask.ts')) ?? '';
  writeFileSync(join(folder, 'ask.ts'), code.replace('http://127.0.0.1:8080', world.url));
  const args = ['--import', join(root, 'scripts/resolve-source.mjs'), join(folder, 'ask.ts')];
  const printed = promisify(execFile)(process.execPath, args, { env: childEnv({ MILLRACE_API_KEY: 'sk-any' }) });
  await answerNext(world);
  expect((await printed).stdout).toBe('It is on its way.\ncompleted, 0 microcents\n');
});

test('the commands of the page work without Redis', async () => {
  const world = await serverWorld();
  const env = { MILLRACE_URL: world.url };
  const [run = '', list = ''] = pageCommands(page, 'millrace');
  const command = new CliCommand(argumentsOf(run), { env });
  await answerNext(world);
  expect(await command.exited).toBe(0);
  expect(command.stdout).toBe('It is on its way.\n');
  expect((await millrace(argumentsOf(list), { env })).code).toBe(0);
});
