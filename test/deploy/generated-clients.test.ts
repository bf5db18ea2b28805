import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { pythonWith, withoutPython } from '../support/python.ts';
import { endRun, serverWorld } from '../producer/http/server-world.ts';
import { RunWriter } from '../producer/support/run-writer.ts';

const sources = join(import.meta.dirname, '../fixtures/generated-clients');

/** A folder with the description of the interface and our programs, and a server with a key that these may use. */
async function worldFor(language: string) {
  const digest = createHash('sha256').update('secret').digest('hex');
  const world = await serverWorld({ apiKeys: `${digest}:default:*` });
  const folder = mkdtempSync(join(tmpdir(), `millrace-${language}-`));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'openapi.json'), JSON.stringify((await world.send('GET', '/openapi.json')).body));
  cpSync(join(sources, language), folder, { recursive: true });
  const run = (command: string, args: readonly string[]) => {
    const done = spawnSync(command, args, { cwd: folder, encoding: 'utf8', timeout: 240_000, env: process.env });
    expect(done.status, `${command} ${args.join(' ')}\n${done.stdout}\n${done.stderr}`).toBe(0);
    return done.stdout;
  };
  return { ...world, folder, run };
}

/** What both programs do: they start a run twice, wait for it, list and count it, and ask for one that there is not. */
async function talk(world: Awaited<ReturnType<typeof worldFor>>, command: string, args: readonly string[]) {
  const { url, folder, redis, keys, send } = world;
  const child = spawn(command, args, {
    cwd: folder,
    env: { ...process.env, MILLRACE_URL: url, MILLRACE_API_KEY: 'secret' },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  let wrong = '';
  child.stderr.on('data', (chunk: Buffer) => (wrong += chunk));
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const started = new Promise<string>((resolve) =>
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk;
      const [, runId] = /^started (\w{26})$/m.exec(said) ?? [];
      if (runId !== undefined) resolve(runId);
    }),
  );
  const runId = await Promise.race([
    started,
    exited.then((code) => Promise.reject(new Error(`exit ${code}: ${wrong}`))),
  ]);
  await endRun(new RunWriter(redis, keys, runId));
  expect([await exited, wrong]).toEqual([0, '']);
  const key = { authorization: 'Bearer secret' };
  expect((await send('GET', '/v1/runs', undefined, key)).body.runs).toHaveLength(1);
  return said.split('\n').slice(1, -1);
}

const talked = ['attached true', 'completed It is on its way. 0', 'listed 1 of 1', 'wrong run_not_found'];

test('a TypeScript client from openapi-typescript is compiled strictly, and talks to a producer', async () => {
  const world = await worldFor('typescript');
  // Under its own name it would be a part of this package, which has not what it imports.
  renameSync(join(world.folder, 'main.ts.txt'), join(world.folder, 'main.ts'));
  world.run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']);
  world.run('npx', ['openapi-typescript', 'openapi.json', '-o', 'api.ts']);
  world.run('npx', ['tsc']);
  expect(await talk(world, process.execPath, ['main.js'])).toEqual(talked);
}, 300_000);

test.skipIf(withoutPython)(
  'a Python client from a generator talks to a producer',
  async () => {
    const world = await worldFor('python');
    const python = pythonWith('openapi-python-client==0.29.1');
    const generate = ['generate', '--path', 'openapi.json', '--output-path', 'client', '--meta', 'none', '--overwrite'];
    const said = world.run(python, ['-m', 'openapi_python_client', ...generate]);
    const missing = said
      .split('\n')
      .filter((line) => /Endpoint will not be generated|Unable to process schema/.test(line));
    // It knows no newline-delimited JSON, which is the only thing that these are about.
    expect(missing.filter((line) => !line.includes('POST /v1/runs/bulk'))).toEqual([]);
    expect(await talk(world, python, ['main.py'])).toEqual(talked);
  },
  300_000,
);
