import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { childEnv } from '../support/child-env.ts';
import { rounds } from '../support/lane.ts';
import { until } from '../support/redis.ts';
import { World } from '../support/world.ts';

const root = join(import.meta.dirname, '../..');
const server = (name: string) => join(root, `node_modules/@modelcontextprotocol/server-${name}/dist/index.js`);
const folder = mkdtempSync(join(tmpdir(), 'millrace-mcp-'));

/** The reference server that has everything, over HTTP, on a port that was free a moment ago. */
let web: ChildProcess;
let world: World;

beforeAll(async () => {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  web = spawn(process.execPath, [server('everything'), 'streamableHttp'], {
    env: childEnv({ PORT: String(port) }),
    stdio: 'ignore',
  });
  mkdirSync(join(folder, 'agents'));
  mkdirSync(join(folder, 'shelf'));
  writeFileSync(join(folder, 'shelf', 'book.txt'), 'Call me Ishmael.');
  const agent = {
    model: 'gpt-4o-mini',
    tools: ['mcp:everything/echo', 'mcp:files', 'mcp:memory/create_entities', 'mcp:memory/read_graph', 'mcp:web/echo'],
    toolOptions: { 'mcp:files/read_text_file': { effect: 'read' } },
    mcpServers: {
      everything: { command: process.execPath, args: [server('everything'), 'stdio'] },
      files: { command: process.execPath, args: [server('filesystem'), join(folder, 'shelf')] },
      memory: {
        command: process.execPath,
        args: [server('memory')],
        env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') },
      },
      web: { url: `http://127.0.0.1:${port}/mcp` },
    },
  };
  writeFileSync(join(folder, 'agents', 'librarian.yaml'), JSON.stringify(agent));
  const { web: _, memory: __, files: ___, ...one } = agent.mcpServers;
  const small = {
    ...agent,
    tools: ['mcp:everything/echo', 'mcp:everything/trigger-long-running-operation'],
    toolOptions: {},
    mcpServers: one,
  };
  writeFileSync(join(folder, 'agents', 'echo.yaml'), JSON.stringify(small));
  const away = {
    ...small,
    tools: ['mcp:everything/echo'],
    mcpServers: { everything: { url: 'http://127.0.0.1:1/mcp' } },
  };
  writeFileSync(join(folder, 'agents', 'required.yaml'), JSON.stringify(away));
  const gated = {
    ...small,
    tools: ['mcp:everything/echo'],
    toolOptions: { 'mcp:everything/echo': { needsApproval: true } },
  };
  writeFileSync(join(folder, 'agents', 'gated.yaml'), JSON.stringify(gated));
  const optional = { ...away, mcpServers: { everything: { url: 'http://127.0.0.1:1/mcp', required: false } } };
  writeFileSync(join(folder, 'agents', 'optional.yaml'), JSON.stringify(optional));
  await until('the server over HTTP answers', () =>
    fetch(`http://127.0.0.1:${port}/mcp`).then(
      () => true,
      () => false,
    ),
  );
  world = await World.start({
    // Servers are processes: more at once would starve whatever else runs here.
    env: { MILLRACE_AGENTS: join(folder, 'agents'), EGRESS_ALLOWED_HOSTS: '127.0.0.1', WORKER_CONCURRENCY: '3' },
  });
}, 60_000);

afterAll(async () => {
  await world?.dispose();
  web?.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

/** Processes that the worker has started and that live. */
function childrenOf(pid: number): number[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,args=']).toString().split('\n');
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, parent, ...args]) => Number(parent) === pid && args.join(' ').includes('modelcontextprotocol'))
    .map(([child]) => Number(child));
}

const results = (runId: string) =>
  (world.provider.callsOf(runId).at(-1)?.messages ?? [])
    .filter(({ role }) => role === 'tool')
    .map(({ content }) => String(content));

test('an agent calls tools of each reference server, over stdio and over HTTP', async () => {
  const run = await world.submit('librarian', [
    {
      calls: [
        { name: 'echo', args: { message: 'over stdio' } },
        { name: 'web__echo', args: { message: 'over http' } },
        {
          name: 'create_entities',
          args: { entities: [{ name: 'Ishmael', entityType: 'sailor', observations: ['calm'] }] },
        },
        { name: 'tool_search', args: { query: 'read_text_file' } },
      ],
    },
    { calls: [{ name: 'read_text_file', args: { path: join(folder, 'shelf', 'book.txt') } }, { name: 'read_graph' }] },
    { text: 'I have seen it all.' },
  ]);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'I have seen it all.' } });
  expect(eventsOf(observed, 'tool.execute.error')).toEqual([]);
  const [stdio, http, , , book, graph] = results(run.runId);
  expect(stdio).toContain('over stdio');
  expect(http).toContain('over http');
  expect(book).toContain('Call me Ishmael.');
  expect(graph).toContain('sailor');
  // What a server wrote is marked as such.
  for (const text of [stdio, book]) expect(text?.split('\n')).not.toHaveLength(1);
});

test('arguments for a call of a server are checked against its schema before they are approved', async () => {
  const run = await world.submit('gated', [
    { calls: [{ name: 'echo', args: { message: 'asked' } }] },
    { text: 'It was said.' },
  ]);
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  await expect(run.approve({ updatedArgs: { message: 7 } })).rejects.toMatchObject({ code: 'validation' });
  expect((await run.get()).pending).toMatchObject([{ toolName: 'echo' }]);
  await run.approve({ updatedArgs: { message: 'edited' } });
  await world.ended(run);
  expect(results(run.runId)[0]).toContain('edited');
});

test('a server that is killed in the middle of a call is an error of its tool, and the worker goes on', async () => {
  const long = { name: 'trigger-long-running-operation', args: { duration: 60, steps: 60 } };
  const run = await world.submit('echo', [
    { calls: [long] },
    { calls: [{ name: 'echo', args: { message: 'anew' } }] },
    { text: 'It came back.' },
  ]);
  const [child] = await until('the server runs', () => {
    const found = childrenOf(world.worker.pid ?? 0);
    return found.length > 0 ? found : undefined;
  });
  await until('the call is under way', async () => {
    for await (const event of world.mill.events(run.runId)) if (event.type === 'tool.execute.progress') return true;
    return false;
  });
  process.kill(child as number, 'SIGKILL');
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'It came back.' } });
  expect(eventsOf(observed, 'tool.outcome_unknown')).toMatchObject([{ toolName: long.name }]);
  expect(eventsOf(observed, 'tool.execute.error')).toMatchObject([{ toolName: long.name }]);
  expect(results(run.runId)[1]).toContain('anew');
});

test('a run whose server cannot be reached fails and may be tried again, unless it can do without', async () => {
  const required = await world.ended(await world.submit('required', [{ text: 'Never sent.' }]));
  expect(required.view).toMatchObject({ status: 'failed', error: { code: 'mcp_unavailable', retryable: true } });
  const optional = await world.ended(await world.submit('optional', [{ text: 'Without it.' }]));
  expect(optional.view).toMatchObject({ status: 'completed', result: { text: 'Without it.' } });
});

test('after many runs no server process is left', async () => {
  const plan = [{ calls: [{ name: 'echo', args: { message: 'hi' } }] }, { text: 'Done.' }];
  const runs = await Promise.all(
    Array.from({ length: rounds({ fast: 8, all: 100 }) }, () => world.submit('echo', plan)),
  );
  for (const run of runs) expect((await run.result({ signal: AbortSignal.timeout(170_000) })).status).toBe('completed');
  await until('no server is left', () => childrenOf(world.worker.pid ?? 0).length === 0);
}, 180_000);
