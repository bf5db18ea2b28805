import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { withoutProcesses } from '../../../support/coreless.ts';
import {
  call,
  contextOf,
  descendants,
  find,
  isAlive,
  makeMcpWorld,
  node,
  odd,
  oddServer,
  output,
  until,
} from './world.ts';
import { rounds } from '../../../support/lane.ts';

const leftOut = withoutProcesses === undefined ? '' : ` (left out: ${withoutProcesses})`;

/** What other files of this process have left running, for tests of their own to come. */
const others = new Set(descendants());
const started = () => descendants().filter((pid) => !others.has(pid));

test('a server sees the environment of its definition and PATH, and nothing else', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd('normal', { env: { ONE: '1' } }) });
  expect(await call(opened, 'env')).toBe('ONE PATH');
});

test('a call carries its idempotency key, and its arguments as they are', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  expect(JSON.parse(await call(opened, 'echo', { a: [1, 'two'] }))).toMatchObject({
    args: { a: [1, 'two'] },
    _meta: { 'millrace/idempotencyKey': 'run_1:s1:t0' },
  });
});

test('a tool says where it comes from, and that its effects are not known', async () => {
  const { open } = makeMcpWorld();
  const opened = await open(
    { odd: odd('normal', { timeoutMs: 5 }), tame: odd('normal', { effect: 'read' }) },
    { tools: ['mcp:odd/echo', 'mcp:tame/echo'] },
  );
  const [first, second] = opened.tools();
  expect(first).toMatchObject({
    source: { server: 'odd', tool: 'echo' },
    trust: 'mcp-derived',
    sideEffectClass: 'external-stateful',
    effect: 'once',
    timeoutMs: 5,
    deferLoading: false,
  });
  expect(second).toMatchObject({ source: { server: 'tame' }, effect: 'read', timeoutMs: 60_000 });
});

test('only granted tools are there, whether by the name of the server or by their safe name', async () => {
  const { open } = makeMcpWorld();
  const names = async (...tools: string[]) =>
    (await open({ odd: odd('names') }, { tools })).tools().map(({ name }) => name);
  expect(await names('mcp:odd/a b')).toEqual(['a_b']);
  expect(await names('mcp:odd/a_b_2')).toEqual(['a_b_2']);
  expect(await names('mcp:odd/twice', 'mcp:odd')).toEqual(['a_b', 'a_b_2', 'x'.repeat(64), 'twice']);
});

test.skipIf(withoutProcesses)(
  `a grant of a tool that a required server does not have names those that it has${leftOut}`,
  async () => {
    const { open } = makeMcpWorld();
    await expect(open({ odd: odd() }, { tools: ['mcp:odd/nope'] })).rejects.toMatchObject({
      code: 'validation',
      message: expect.stringMatching(/no tool nope; known are echo, slow, die, env/) as string,
    });
    expect(started()).toEqual([]);
  },
);

test('a grant of a server that is not defined names those that are', async () => {
  const { open } = makeMcpWorld();
  await expect(open({ odd: odd() }, { tools: ['mcp:even'] })).rejects.toMatchObject({
    code: 'agent_manifest_invalid',
    message: 'agent tester: there is no MCP server even; known are odd',
  });
});

test.each([
  [10, false],
  [11, true],
])('of a server with %i tools, deferred is %s', async (count, deferred) => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd('many', {}, String(count)) });
  expect(new Set(opened.tools().map(({ deferLoading }) => deferLoading))).toEqual(new Set([deferred]));
});

test('tools that a model has seen stay, where so many more come that these are deferred', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd('growing') });
  await call(opened, 'change');
  const deferred = opened.tools().map(({ name, deferLoading }) => [name, deferLoading]);
  expect(deferred.slice(0, 10).every(([, isDeferred]) => isDeferred === false)).toBe(true);
  expect(deferred.slice(10)).toEqual([['t10', true]]);
});

test('one tool of a large server is not deferred', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd('many', {}, '11') }, { tools: ['mcp:odd/t3'] });
  expect(opened.tools()).toMatchObject([{ name: 't3', deferLoading: false }]);
});

test('a list that has changed is there when the call that changed it is over, with the known order first', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  const before = opened.tools();
  expect(opened.tools()).toBe(before);
  await call(opened, 'change');
  const names = before.map(({ name }) => name).filter((name) => name !== 'die');
  expect(opened.tools().map(({ name }) => name)).toEqual([...names, 'new1']);
});

test('a server that asks for its list to be read without end is not followed', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  for (let i = 0; i < 70; i++) await call(opened, 'change');
  expect(opened.tools().some(({ name }) => name === 'new60')).toBe(true);
  expect(opened.tools().some(({ name }) => name === 'new70')).toBe(false);
});

test('half characters and NUL of a server never come further than its connection', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd('halves') });
  expect(opened.tools()[0]?.description).toBe('Half \ufffd \ufffd');
  expect(await call(opened, 'halves')).toBe('Half \ufffd \ufffd');
});

test('a server that dies in a call is a tool error, and is started again for the next one', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  const first = await call(opened, 'pid');
  await expect(call(opened, 'die')).rejects.toMatchObject({
    kind: 'outcome_unknown',
    message: 'MCP server odd: it ended with exit code 3',
  });
  expect(await call(opened, 'pid')).not.toBe(first);
});

test('a call that may be repeated is said to be so', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd('normal', { effect: 'read' }) });
  await expect(call(opened, 'die')).rejects.toThrow('You may call it again: the connection is made anew');
});

test('a server that is killed from outside takes no other call with it', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ one: odd(), two: odd('normal', {}, 'other') });
  const pid = Number(await call(opened, 'pid'));
  const slow = call(opened, 'slow');
  const other = call(opened, 'other');
  process.kill(pid, 'SIGKILL');
  await expect(slow).rejects.toThrow('MCP server one: it was ended by SIGKILL');
  expect(await other).toBe('no tool other');
});

test('a server that no longer listens is replaced', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  const first = await call(opened, 'pid');
  await call(opened, 'shut');
  await expect(call(opened, 'pid')).rejects.toThrow('MCP server odd: it closed its input');
  expect(await call(opened, 'pid')).not.toBe(first);
});

test('a server that dies with every call is left alone after a while', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  for (let i = 0; i < 6; i++) await expect(call(opened, 'die')).rejects.toThrow('exit code 3');
  await expect(call(opened, 'die')).rejects.toThrow('it was lost too often');
});

test('a call that is stopped ends with the reason of its signal, and the server gets the cancellation', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  const stop = new AbortController();
  const slow = call(opened, 'slow', {}, { signal: stop.signal });
  const reason = new Error('that is enough');
  // The server has read the call by the time it answers the next one.
  await call(opened, 'echo');
  stop.abort(reason);
  await expect(slow).rejects.toBe(reason);
  expect(await call(opened, 'cancelled')).toBe('1');
});

test('progress is handed on, but not all of a flood of it', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  const seen: unknown[] = [];
  expect(await call(opened, 'progress', {}, { progress: (data) => seen.push(data) })).toBe('done');
  expect(seen[0]).toEqual({ progress: 1, total: 5_000 });
  expect(seen.length).toBeLessThan(1_001);
});

test('a server that talks without end is left', async () => {
  const { open, lines } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  await expect(call(opened, 'flood')).rejects.toMatchObject({ kind: 'outcome_unknown' });
  expect(lines.join('')).toContain('it sends more messages than were asked for');
  expect(await call(opened, 'echo')).toContain('args');
});

test('what a server itself says about a refused call is a result that is an error', async () => {
  const { open } = makeMcpWorld({ secrets: { KEY: 'sesame-open-1' } });
  const opened = await open({ odd: odd('normal', { env: { TOKEN: { secret: 'KEY' } } }) });
  const refused = await output(opened, 'refuse');
  expect(refused).toMatchObject({ isError: true, value: 'the server refused the call: no [redacted]' });
});

test.skipIf(withoutProcesses).each([
  [
    'a command that does not exist',
    { command: 'no-such-command-here' },
    'its command no-such-command-here was not found',
  ],
  ['a command that is no program', { command: oddServer }, 'is no program that may be started here'],
  ['a folder that does not exist', odd('normal', { cwd: '/no/such/folder' }), 'its folder /no/such/folder or'],
  ['a server that dies at once', odd('dead'), 'it ended with exit code 1'],
  ['a server that never says hello', odd('mute', { connectTimeoutMs: 800 }), 'it did not answer within 800 ms'],
  [
    'a server that never lists its tools',
    odd('mute-list', { connectTimeoutMs: 800 }),
    'it did not answer within 800 ms',
  ],
  ['a server that sends a line without end', odd('endless-line'), 'it sent a message of more than'],
  ['a server that sends brackets', odd('deep-hello'), 'it sent a message nested deeper than 64 levels'],
  [
    'a secret that is not there',
    odd('normal', { env: { TOKEN: { secret: 'NOPE' } } }),
    'does not have the secret NOPE',
  ],
])(`%s is mcp_unavailable, and nothing is left of it${leftOut}`, async (_, server, message) => {
  const { open } = makeMcpWorld();
  await expect(open({ odd: server, fine: odd() })).rejects.toMatchObject({
    code: 'mcp_unavailable',
    retryable: true,
    message: expect.stringContaining(`MCP server odd: `) as string,
  });
  await expect(open({ odd: server })).rejects.toThrow(message);
  expect(started()).toEqual([]);
});

test('an optional server that is not there is a warning, and the others work', async () => {
  const { open, lines } = makeMcpWorld();
  const opened = await open({ gone: { command: 'no-such-command-here', required: false }, odd: odd() });
  expect(new Set(opened.tools().map(({ source }) => source?.server))).toEqual(new Set(['odd']));
  expect(lines.map((line) => JSON.parse(line) as object)).toContainEqual(
    expect.objectContaining({ level: 'warn', server: 'gone', msg: 'an optional mcp server is not there' }),
  );
});

test('no secret is in a log line or an error, whatever the server writes', async () => {
  const { open, lines } = makeMcpWorld({ secrets: { KEY: 'sesame-open-1' } });
  const env = { TOKEN: { secret: 'KEY' } };
  const failure = await open({ odd: odd('dead', { env }) }).catch((error: unknown) => error);
  expect(lines.join('')).toContain('cannot start: token [redacted] is wrong');
  expect(lines.join('') + String(failure) + JSON.stringify(failure)).not.toContain('sesame');
});

test('a secret that no environment can hold is reported by its name', async () => {
  const { open } = makeMcpWorld({ secrets: { KEY: 'sesame\u0000open' } });
  const failure: unknown = await open({ odd: odd('normal', { env: { TOKEN: { secret: 'KEY' } } }) }).catch(
    (error: unknown) => error,
  );
  expect(String(failure)).toContain('environment variable TOKEN cannot be set');
  expect(String(failure)).not.toContain('sesame');
});

test('a server that greets people on its output still works', async () => {
  const { open } = makeMcpWorld();
  expect(await call(await open({ odd: odd('banner') }), 'echo')).toContain('args');
});

test.skipIf(withoutProcesses)(
  `a server that does not want to end is ended, with all that it has started${leftOut}`,
  async () => {
    const { open } = makeMcpWorld();
    const opened = await open({ odd: odd('family') });
    const pids = started();
    expect(pids.length).toBeGreaterThan(2);
    await opened[Symbol.asyncDispose]();
    await until(() => !pids.some(isAlive));
  },
);

test.skipIf(withoutProcesses)(`a server that ends by itself takes what it has started along${leftOut}`, async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd('careless') });
  const pids = started();
  expect(pids.length).toBeGreaterThan(2);
  await opened[Symbol.asyncDispose]();
  await until(() => !pids.some(isAlive));
});

test.skipIf(withoutProcesses)(
  `the hub ends what runs have left open, and opens nothing afterwards${leftOut}`,
  async () => {
    const { hub, open } = makeMcpWorld();
    const opened = await open({ odd: odd() });
    await hub[Symbol.asyncDispose]();
    expect(started()).toEqual([]);
    await expect(call(opened, 'echo')).rejects.toMatchObject({ kind: 'execution_failed' });
    await expect(open({ odd: odd() })).rejects.toMatchObject({ code: 'mcp_unavailable' });
  },
);

test.skipIf(withoutProcesses)(
  `a run that is stopped while its servers start leaves none behind${leftOut}`,
  async () => {
    const { open } = makeMcpWorld();
    const stop = new AbortController();
    const opening = open({ odd: odd('mute'), fine: odd() }, { signal: stop.signal });
    const reason = new Error('cancelled');
    await until(() => started().length >= 4);
    stop.abort(reason);
    await expect(opening).rejects.toBe(reason);
    expect(started()).toEqual([]);
  },
);

test.skipIf(withoutProcesses)(
  `a server that ignores the end of its input ends when the worker is killed${leftOut}`,
  async () => {
    const host = spawn(node, [join(import.meta.dirname, '../../../fixtures/mcp/host.ts'), oddServer, 'family'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface({ input: host.stdout }), 'line')) as [string];
    const pids = descendants(host.pid);
    expect(line).toBe('ready');
    expect(pids.length).toBeGreaterThan(2);
    host.kill('SIGKILL');
    await until(() => !pids.some(isAlive));
  },
);

test('a tool that is asked after its server has gone waits no longer than the connection takes', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  const tool = find(opened, 'echo');
  await opened[Symbol.asyncDispose]();
  await expect(tool.execute({}, contextOf())).rejects.toThrow('it was closed');
});

test.skipIf(withoutProcesses)(`many runs leave no process behind${leftOut}`, { timeout: 120_000 }, async () => {
  const { open } = makeMcpWorld();
  for (let batch = 0; batch < rounds({ fast: 2, all: 20 }); batch++) {
    await Promise.all(
      Array.from({ length: 5 }, async () => {
        const opened = await open({ odd: odd() });
        expect(await call(opened, 'echo')).toContain('args');
        await opened[Symbol.asyncDispose]();
      }),
    );
  }
  expect(started()).toEqual([]);
});

test('results of very many parts are read to a bound', async () => {
  const { open } = makeMcpWorld();
  const opened = await open({ odd: odd() });
  const huge = await call(opened, 'huge');
  expect(huge.split('\n')).toHaveLength(1_001);
  expect(huge).toContain('[99000 more parts were left out]');
  expect(await call(opened, 'crooked')).toContain('a part of type txt');
});
