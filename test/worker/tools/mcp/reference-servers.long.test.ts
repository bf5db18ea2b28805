import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../../support/scratch-redis.ts';
import type { ReadRange, OpenedTools } from '../../../../src/worker/tools/source.ts';
import { childEnv } from '../../../support/child-env.ts';
import { call, contextOf, find, makeMcpWorld, node, output, referenceServer, until } from './world.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'millrace-mcp-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

interface Running {
  readonly url: string;
  kill(): Promise<void>;
}

/** The everything server over HTTP. Its port is one that was free a moment ago; a given one is taken again. */
async function everythingOverHttp(givenPort?: number): Promise<Running & { readonly port: number }> {
  const port = givenPort ?? (await freePort());
  const child = spawn(node, [referenceServer('everything'), 'streamableHttp'], {
    env: childEnv({ PORT: String(port) }),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  let output = '';
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const kill = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  onTestFinished(kill);
  await until(() => {
    if (child.exitCode !== null) throw new Error(`the everything server did not start: ${output}`);
    return /listening on port/i.test(output);
  });
  return { url: `http://127.0.0.1:${port}/mcp`, port, kill };
}

function everything(): object {
  return { command: node, args: [referenceServer('everything'), 'stdio'] };
}

async function read(
  opened: OpenedTools,
  handle: string,
  range: ReadRange = { kind: 'bytes', offset: 0, length: 65_536 },
) {
  const request = { runId: 'run_1', tenant: 'default', maxBytes: 65_536, signal: new AbortController().signal };
  for (const reader of opened.resultReaders) {
    const part = await reader({ ...request, handle, range });
    if (part) return part;
  }
  return undefined;
}

/** Calls what the everything server offers, and answers whether it still works afterwards. */
async function talkToEverything(opened: OpenedTools): Promise<string> {
  expect(opened.tools().every(({ deferLoading, source }) => deferLoading && source?.server === 'all')).toBe(true);
  expect(await call(opened, 'echo', { message: 'hello' })).toBe('Echo: hello');
  expect(await call(opened, 'get-sum', { a: 2, b: 3 })).toContain('5');
  const sum = await find(opened, 'get-sum').check({ a: 'two' });
  expect(sum).toEqual({ ok: false, problems: ["arguments: must have required property 'b'", 'a: must be number'] });
  expect((await output(opened, 'get-structured-content', { location: 'New York' })).value).toMatchObject({
    temperature: 33,
    conditions: 'Cloudy',
  });
  const image = await call(opened, 'get-tiny-image');
  expect(image).toContain('[image of type image/png, 4033 bytes, which are not shown]');
  expect((await output(opened, 'get-sum', { a: 'two', b: 3 })).isError).toBe(true);

  const links = await call(opened, 'get-resource-links', { count: 2 });
  expect(links).toContain('"handle":"demo://resource/dynamic/text/2"');
  const resource = await call(opened, 'get-resource-reference', { resourceType: 'Text', resourceId: 2 });
  expect(resource).not.toContain('plaintext');
  expect(await read(opened, 'demo://resource/dynamic/text/2')).toMatchObject({
    content: expect.stringContaining('Resource 2') as string,
    eof: true,
    trust: 'mcp-derived',
    toolName: 'all',
  });
  expect(await read(opened, 'demo://resource/dynamic/text/99')).toBeUndefined();

  const seen: unknown[] = [];
  const args = { duration: 0.5, steps: 2 };
  await call(opened, 'trigger-long-running-operation', args, { progress: (data) => seen.push(data) });
  expect(seen).toContainEqual({ progress: 1, total: 2 });

  const stop = new AbortController();
  const reason = new Error('enough');
  const long = find(opened, 'trigger-long-running-operation').execute(
    { duration: 60, steps: 600 },
    contextOf({ signal: stop.signal, progress: () => stop.abort(reason) }),
  );
  await expect(long).rejects.toBe(reason);
  return await call(opened, 'echo', { message: 'still here' });
}

test('the everything server over stdio', async () => {
  const { open } = makeMcpWorld();
  expect(await talkToEverything(await open({ all: everything() }))).toBe('Echo: still here');
});

test('the everything server over HTTP', async () => {
  const { url } = await everythingOverHttp();
  const { open } = makeMcpWorld();
  expect(await talkToEverything(await open({ all: { url } }))).toBe('Echo: still here');
});

test('an HTTP server that dies in a call is a tool error, and is found again when it is back', async () => {
  const first = await everythingOverHttp();
  const { open } = makeMcpWorld();
  const opened = await open({ all: { url: first.url } });
  const dying = call(
    opened,
    'trigger-long-running-operation',
    { duration: 60, steps: 600 },
    {
      progress: () => void first.kill(),
    },
  );
  await expect(dying).rejects.toMatchObject({
    kind: 'outcome_unknown',
    message: expect.stringContaining('MCP server all') as string,
  });
  await expect(call(opened, 'echo', { message: 'a' })).rejects.toMatchObject({ kind: 'execution_failed' });
  await everythingOverHttp(first.port);
  expect(await call(opened, 'echo', { message: 'back' })).toBe('Echo: back');
});

test('the filesystem server reads and writes in its folder, and nowhere else', async () => {
  const path = folder();
  writeFileSync(join(path, 'note.txt'), 'remember the milk');
  const { open } = makeMcpWorld();
  const opened = await open({
    files: { command: node, args: [referenceServer('filesystem'), path], effect: 'idempotent' },
  });
  expect(await call(opened, 'read_text_file', { path: join(path, 'note.txt') })).toBe('remember the milk');
  expect(opened.resultReaders).toEqual([]);
  await call(opened, 'write_file', { path: join(path, 'new.txt'), content: 'written' });
  expect(await call(opened, 'list_directory', { path })).toBe('[FILE] new.txt\n[FILE] note.txt');
  const outside = await output(opened, 'read_text_file', { path: '/etc/passwd' });
  expect(outside).toMatchObject({ isError: true, value: expect.stringContaining('Access denied') as string });
});

test('the memory server keeps what it gets', async () => {
  const { open } = makeMcpWorld();
  const env = { MEMORY_FILE_PATH: join(folder(), 'memory.jsonl') };
  const opened = await open({ memory: { command: node, args: [referenceServer('memory')], env } });
  expect(opened.tools().every(({ deferLoading }) => !deferLoading)).toBe(true);
  const entities = [{ name: 'Ada', entityType: 'person', observations: ['likes engines'] }];
  await call(opened, 'create_entities', { entities });
  expect((await output(opened, 'read_graph')).value).toMatchObject({ entities: [{ name: 'Ada' }] });
});
