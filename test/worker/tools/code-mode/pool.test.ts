import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLog } from '../../../../src/shared/base/log.ts';
import { converse, type ScriptRequest } from '../../../../src/worker/tools/code-mode/conversation.ts';
import { defaultLimits, type HostMessage } from '../../../../src/worker/tools/code-mode/protocol.ts';
import { ScriptPool, maxProcessWaitMs } from '../../../../src/worker/tools/code-mode/pool.ts';
import { confinement, type ProcessListener } from '../../../../src/worker/tools/code-mode/process.ts';
import type { InnerOutcome } from '../../../../src/worker/tools/tool.ts';
import { until } from '../../../support/redis.ts';
import { FakeClock } from '../../../../src/testing/fake-clock.ts';
import { scriptWorld } from './script-world.ts';
import { rounds } from '../../../support/lane.ts';
import { withoutProcesses } from '../../../support/coreless.ts';

const world = scriptWorld();
const fine = (value: unknown): InnerOutcome => ({ ok: true, value });

/** A tool that answers when the test lets it. */
function gate() {
  const opened = Promise.withResolvers<InnerOutcome>();
  const reached = Promise.withResolvers<void>();
  const call = () => {
    reached.resolve();
    return opened.promise;
  };
  return { call, reached: reached.promise, open: (value: unknown) => opened.resolve(fine(value)) };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const forms = [
  ['an expression', '1 + 1', 2],
  ['an expression that ends with a semicolon', 'await tools.echo({ a: 1 });', { a: 1 }],
  ['an object literal', '{ a: 1 }', { a: 1 }],
  ['statements that return', 'const a = 1;\nreturn a + 1', 2],
  ['an async function', 'async () => { return 3 }', 3],
  ['a comment at the end', 'return 4 // done', 4],
  ['a tool whose name is no identifier', "tools['with-dash']({ a: 5 })", { a: 5 }],
  ['a call without arguments', 'tools.echo()', {}],
  ['nothing', 'const a = 1', undefined],
  ['text that is not ASCII', 'return "Grüße 🎈 \\0"', 'Grüße 🎈 \0'],
] as const;

test.each(forms)('a script may be %s', async (_, source, value) => {
  expect(await world.run(source)).toMatchObject({ ok: true, value });
});

const mistakes = [
  ['const a = 1;\nlet b = ;', 'syntax', /line 2, column 9/],
  ['const a = 1;\n\n  missing.field', 'threw', /missing.*line 3, column 3/],
  ['return 1 +', 'syntax', /line \d/],
  ['throw new TypeError("odd")', 'threw', /^TypeError: odd/],
  ['throw { code: 7 }', 'threw', /\{"code":7\}/],
  ['await tools.other({})', 'threw', /there is no such tool/],
] as const;

test.each(mistakes)('the error of %j names what and where', async (source, reason, message) => {
  expect(await world.run(source)).toMatchObject({ ok: false, reason, message: expect.stringMatching(message) });
});

test('a failed call throws an error with its kind', async () => {
  const call = () => Promise.resolve({ ok: false, kind: 'rate_limited', message: 'too often' } as const);
  const source = 'try { await tools.echo() } catch (e) { return [e instanceof Error, e.kind, e.tool, e.message] }';
  const outcome = await world.run(source, { call });
  expect(outcome).toMatchObject({ value: [true, 'rate_limited', 'echo', 'echo: too often (rate_limited)'] });
  expect(await world.run('await tools.echo()', { call })).toMatchObject({ ok: false, reason: 'threw' });
});

const badResults: readonly [string, () => Promise<InnerOutcome>][] = [
  ['a rejection', () => Promise.reject(new Error('a secret of the host'))],
  [
    'a throw',
    () => {
      throw new Error('a secret of the host');
    },
  ],
  [
    'a result that is no JSON',
    () =>
      Promise.resolve(
        fine({
          get a() {
            throw new Error('a secret of the host');
          },
        }),
      ),
  ],
  ['a result that is too large', () => Promise.resolve(fine('x'.repeat(1_048_577)))],
  [
    'a result that is too deep for the engine',
    () => Promise.resolve(fine(JSON.parse('['.repeat(5_000) + ']'.repeat(5_000)))),
  ],
];

test.each(badResults)('%s fails that call alone, and shows nothing of the host', async (_, call) => {
  const outcome = await world.run('try { await tools.echo() } catch (e) { return e.message }', { call });
  expect(outcome).toMatchObject({ ok: true, value: expect.stringContaining('echo: ') });
  expect(JSON.stringify(outcome)).not.toContain('secret');
});

test('a result may be as large as a mebibyte', async () => {
  const call = () => Promise.resolve(fine('x'.repeat(1_048_574)));
  expect(await world.run('(await tools.echo()).length', { call })).toMatchObject({ ok: true, value: 1_048_574 });
});

test('what a script prints is kept, within bounds', async () => {
  const source = `
    console.log('a', { b: 1 }, 2n);
    console.error(new TypeError('c'));
    for (let i = 0; i < 200; i++) console.log('x'.repeat(1_000));`;
  const { logs } = await world.run(source);
  expect(logs.slice(0, 2)).toEqual(['a {"b":1} [cannot be shown]', 'TypeError: c']);
  expect(logs).toHaveLength(101);
  expect(Math.max(...logs.map((line) => line.length))).toBe(501);
});

test('time stands still and chance repeats, by the key of the call', async () => {
  const source =
    'return [Date.now(), new Date().toISOString(), Date(), new Date(2020, 1, 1).getTime(), Math.random(), Math.random()]';
  const first = await world.run(source);
  const again = await world.run(source);
  const other = await world.run(source, { seed: 'another key' });
  const values = (first.ok ? first.value : []) as unknown[];
  expect(again).toEqual(first);
  expect(values.slice(0, 2)).toEqual([1_700_000_000_000, '2023-11-14T22:13:20.000Z']);
  expect(values[2]).toContain('2023');
  expect(values[3]).toBe(Date.UTC(2020, 1, 1));
  expect(values[4]).not.toBe(values[5]);
  expect((other.ok ? (other.value as unknown[]) : []).slice(4)).not.toEqual(values.slice(4));
});

test('results reach the script in the order of its calls, whichever is there first', async () => {
  const answers = [0, 1, 2].map(() => Promise.withResolvers<InnerOutcome>());
  const asked: unknown[] = [];
  const call = (_name: string, args: unknown) => {
    asked.push((args as { i: unknown }).i);
    return answers[asked.length - 1]?.promise ?? Promise.resolve(fine(null));
  };
  const source = `
    const order = [];
    await Promise.all([0, 1, 2].map(async (i) => { order.push([i, await tools.echo({ i })]); await tools.echo({ i: 'after ' + i }) }));
    return order;`;
  const running = world.run(source, { call });
  await until('three calls', () => asked.length === 3);
  for (const n of [2, 1, 0]) answers[n]?.resolve(fine(`answer ${n}`));
  expect(await running).toMatchObject({
    ok: true,
    value: [0, 1, 2].map((n) => [n, `answer ${n}`]),
  });
  expect(asked).toEqual([0, 1, 2, 'after 0', 'after 1', 'after 2']);
});

test('a script that returned has ended when the calls that it left behind have ended', async () => {
  const slow = gate();
  let hasEnded = false;
  const running = world.run('tools.echo(); return 1', { call: slow.call }).finally(() => (hasEnded = true));
  await slow.reached;
  // Its process is free already.
  expect(await world.run('2')).toMatchObject({ ok: true, value: 2 });
  expect(hasEnded).toBe(false);
  slow.open('late');
  expect(await running).toMatchObject({ ok: true, value: 1, calls: 1 });
});

test('a result that comes late reaches no later script', async () => {
  const slow = gate();
  const first = world.run('tools.echo(); return 1', { call: slow.call });
  await slow.reached;
  const second = gate();
  const next = world.run('tools.echo()', { call: second.call });
  await second.reached;
  slow.open('of the first');
  await first;
  second.open('of the second');
  expect(await next).toMatchObject({ ok: true, value: 'of the second' });
});

test('ten big results cost one number', async () => {
  const rows = Array.from({ length: 4_000 }, (_, n) => ({ n, text: 'x'.repeat(35) }));
  expect(JSON.stringify(rows).length).toBeGreaterThan(200_000);
  const source = `
    let sum = 0;
    for (let i = 0; i < 10; i++) for (const row of await tools.echo({ i })) sum += row.n;
    return sum;`;
  const outcome = await world.run(source, { call: () => Promise.resolve(fine(rows)) });
  expect(outcome).toMatchObject({ ok: true, value: 79_980_000, calls: 10 });
});

test('a script whose process is killed is an error, and the next one runs', async () => {
  const slow = gate();
  const running = world.run('tools.echo()', { call: slow.call });
  await slow.reached;
  const [pid = 0] = world.pool.processIds();
  process.kill(pid, 'SIGKILL');
  slow.open('too late');
  expect(await running).toMatchObject({ ok: false, reason: 'crashed' });
  expect(await world.run('1')).toMatchObject({ ok: true, value: 1 });
});

test('a process that does not stop by itself is killed', async () => {
  const slow = gate();
  const running = world.run('tools.echo()', { call: slow.call, limits: { timeoutMs: 300 } });
  await slow.reached;
  const [pid = 0] = world.pool.processIds();
  process.kill(pid, 'SIGSTOP');
  expect(await running).toMatchObject({ ok: false, reason: 'timeout' });
  await until('the process is gone', () => !isAlive(pid));
  slow.open('too late');
  expect(await world.run('1')).toMatchObject({ ok: true, value: 1 });
});

test('a script that waits for its tools for too long is ended', async () => {
  const outcome = await world.run('console.log("before"); await tools.echo()', {
    call: () => new Promise(() => {}),
    limits: { timeoutMs: 2_000 },
  });
  expect(outcome).toMatchObject({ ok: false, reason: 'timeout', logs: ['before'], calls: 1 });
});

test.each([
  ['computes', 'await tools.echo(); for (;;);'],
  ['waits', 'await tools.echo(); await tools.echo()'],
])('a script that is aborted while it %s ends', async (_, source) => {
  const abort = new AbortController();
  let calls = 0;
  const call = () => (++calls === 1 ? Promise.resolve(fine(null)) : new Promise<never>(() => {}));
  const running = world.run(source, { call, signal: abort.signal });
  await until('it is on its way', () => calls > 0);
  abort.abort();
  expect(await running).toMatchObject({ ok: false, reason: 'aborted' });
  expect(await world.run('1')).toMatchObject({ ok: true, value: 1 });
});

test('a script that was aborted before starts nothing', async () => {
  const pool = new ScriptPool({ size: 1, log: silentLog, clock: systemClock });
  const signal = AbortSignal.abort();
  expect(await pool.run({ ...request(), source: '1', signal })).toMatchObject({ ok: false, reason: 'aborted' });
  expect(pool.processIds()).toEqual([]);
  await pool[Symbol.asyncDispose]();
});

function request(): ScriptRequest {
  return {
    source: '1',
    tenant: 'acme',
    tools: ['echo'],
    limits: defaultLimits,
    nowMs: 0,
    seed: 'key',
    signal: new AbortController().signal,
    call: () => Promise.resolve(fine(null)),
  };
}

test('fifty scripts at once share two processes', async () => {
  await using pool = new ScriptPool({ size: 2, log: silentLog, clock: systemClock });
  const seen = new Set<number>();
  const call = () => {
    for (const pid of pool.processIds()) seen.add(pid);
    return Promise.resolve(fine(null));
  };
  const runs = Array.from({ length: 50 }, (_, n) =>
    pool.run({ ...request(), source: `await tools.echo(); return ${n}`, call }),
  );
  const outcomes = await Promise.all(runs);
  expect(outcomes.map((outcome) => outcome.ok && outcome.value)).toEqual(outcomes.map((_, n) => n));
  expect(seen.size).toBe(2);
});

test('of hundreds of scripts in a row each hundred has a process, one after the other', async () => {
  const hundreds = rounds({ fast: 2, all: 5 });
  await using pool = new ScriptPool({ size: 2, log: silentLog, clock: systemClock });
  const seen = new Set<number>();
  for (let n = 0; n < 100 * hundreds; n++) {
    expect(await pool.run({ ...request(), source: `return ${n}` })).toMatchObject({ value: n });
    const pids = pool.processIds();
    expect(pids.length).toBeLessThanOrEqual(1);
    for (const pid of pids) seen.add(pid);
  }
  expect(seen.size).toBe(hundreds);
  await until('the processes are gone', () => [...seen].every((pid) => !isAlive(pid)));
}, 120_000);

test('a process that ran a script of one tenant runs none of another', async () => {
  await using pool = new ScriptPool({ size: 1, log: silentLog, clock: systemClock });
  await pool.run({ ...request(), tenant: 'acme' });
  const [first = 0] = pool.processIds();
  await pool.run({ ...request(), tenant: 'acme' });
  expect(pool.processIds()).toEqual([first]);
  await pool.run({ ...request(), tenant: 'globex' });
  expect(pool.processIds()).not.toContain(first);
  await until('the first process is gone', () => !isAlive(first));
});

test('a script that finds all processes busy for too long gets an error that says so', async () => {
  const clock = new FakeClock();
  await using pool = new ScriptPool({ size: 1, log: silentLog, clock });
  const slow = gate();
  const first = pool.run({ ...request(), source: 'tools.echo()', call: slow.call });
  await slow.reached;
  const limits = { ...defaultLimits, timeoutMs: 2 * maxProcessWaitMs };
  const second = pool.run({ ...request(), limits });
  await until('the second one waits', () => clock.limits.filter((ms) => ms === maxProcessWaitMs).length === 1);
  clock.jump(maxProcessWaitMs);
  expect(await second).toMatchObject({ ok: false, reason: 'busy' });
  slow.open('now');
  expect(await first).toMatchObject({ ok: true, value: 'now' });
  expect(await pool.run(request())).toMatchObject({ ok: true, value: 1 });
});

test('closing the pool ends what runs and what waits, and leaves no process', async () => {
  const pool = new ScriptPool({ size: 1, log: silentLog, clock: systemClock });
  const slow = gate();
  const running = pool.run({ ...request(), source: 'tools.echo()', call: slow.call });
  await slow.reached;
  const waiting = pool.run(request());
  const [pid = 0] = pool.processIds();
  await pool[Symbol.asyncDispose]();
  expect(isAlive(pid)).toBe(false);
  expect(await Promise.all([running, waiting])).toMatchObject([{ reason: 'aborted' }, { reason: 'aborted' }]);
  expect(await pool.run(request())).toMatchObject({ reason: 'aborted' });
});

/** The worker's side of a script, with a process that sends what no script process sends. */
function impostor() {
  let listener: ProcessListener | undefined;
  const sent: HostMessage[] = [];
  const called: string[] = [];
  const ending = converse(
    { listen: (to) => (listener = to), send: (message) => sent.push(message) },
    { t: 'run', source: '', tools: ['echo'], limits: defaultLimits, nowMs: 0, seed: [] },
    { ...request(), call: (name) => (called.push(name), Promise.resolve(fine(null))) },
    systemClock,
  );
  return {
    sends: (message: unknown) => listener?.message(message as never),
    gone: () => listener?.gone('x'),
    called,
    ending,
  };
}

const lies: readonly [string, readonly unknown[]][] = [
  ['a tool that the script may not call', [{ t: 'call', id: 1, name: 'other', args: '{}' }]],
  ['a call out of order', [{ t: 'call', id: 2, name: 'echo', args: '{}' }]],
  [
    'a call twice',
    [
      { t: 'call', id: 1, name: 'echo', args: '{}' },
      { t: 'call', id: 1, name: 'echo', args: '{}' },
    ],
  ],
  ['that it is ready, twice', [{ t: 'ready' }]],
  [
    'a value over its bound',
    [{ t: 'done', outcome: { ok: true, json: JSON.stringify('x'.repeat(51_200)) }, logs: [], isSpent: false }],
  ],
  ['a value that is no JSON', [{ t: 'done', outcome: { ok: true, json: '{' }, logs: [], isSpent: false }]],
  ['arguments over their bound', [{ t: 'call', id: 1, name: 'echo', args: 'x'.repeat(262_145) }]],
  [
    'something after its end',
    [
      { t: 'done', outcome: { ok: true }, logs: [], isSpent: false },
      { t: 'call', id: 1, name: 'echo', args: '{}' },
    ],
  ],
  [
    'more calls than a script may make',
    Array.from({ length: 65 }, (_, n) => ({ t: 'call', id: n + 1, name: 'echo', args: '{}' })),
  ],
];

test.each(lies)('a process that sends %s is killed', async (_, messages) => {
  const { sends, gone, called, ending } = impostor();
  const last = messages.at(-1);
  for (const message of messages.slice(0, -1)) sends(message);
  const before = called.length;
  expect(() => sends(last)).toThrow(/can make|before|has ended|bound|JSON/);
  expect(called).toHaveLength(before);
  gone();
  await ending;
});

const leftOut = withoutProcesses === undefined ? '' : ` (left out: ${withoutProcesses})`;

test.skipIf(withoutProcesses)(`a process starts without environment, and with the one pipe${leftOut}`, async () => {
  await world.run('1');
  const [pid = 0] = world.pool.processIds();
  expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).toBe('');
  const open = readdirSync(`/proc/${pid}/fd`).map((fd) => [fd, readlinkSync(`/proc/${pid}/fd/${fd}`)] as const);
  expect(open.filter(([, target]) => target.startsWith('/') && target !== '/dev/null')).toEqual([]);
  // Its error output is not read any more.
  const sockets = open.filter(([fd, target]) => target.startsWith('socket:') && fd !== '2');
  expect(sockets.map(([fd]) => fd)).toEqual(['3']);
});

test('even code that got out of the engine reads no file and starts no program', async () => {
  const attempts = `
    const { readFileSync, writeFileSync, readdirSync } = require('node:fs');
    const tries = {
      passwd: () => readFileSync('/etc/passwd'),
      environ: () => readFileSync('/proc/self/environ'),
      package: () => readFileSync(${JSON.stringify(fileURLToPath(new URL('../../../../package.json', import.meta.url)))}),
      root: () => readdirSync('/'),
      write: () => writeFileSync(${JSON.stringify(join(tmpdir(), 'escaped'))}, ''),
      program: () => require('node:child_process').spawnSync('true'),
      thread: () => new (require('node:worker_threads').Worker)('1', { eval: true }),
      addon: () => process.dlopen({ exports: {} }, '/nothing.node'),
    };
    const codes = {};
    for (const [name, attempt] of Object.entries(tries)) {
      try { attempt(); codes[name] = 'allowed' } catch (error) { codes[name] = error.code }
    }
    console.log(JSON.stringify({ codes, env: Object.keys(process.env) }));`;
  const child = spawn(process.execPath, [...confinement(), '-e', attempts], {
    env: {},
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  const { codes, env } = JSON.parse(line) as { codes: Record<string, string>; env: string[] };
  expect(env).toEqual([]);
  expect(new Set(Object.values(codes).map((code) => code.replace('ERR_DLOPEN_DISABLED', 'ERR_ACCESS_DENIED')))).toEqual(
    new Set(['ERR_ACCESS_DENIED']),
  );
});

test.each([
  ['idle', '1'],
  ['computing', 'await tools.echo(); for (;;);'],
])('a process that is %s ends when its worker is killed', async (_, source) => {
  const worker = spawn(process.execPath, [fileURLToPath(new URL('./doomed-worker.ts', import.meta.url)), source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void worker.kill('SIGKILL'));
  const [line] = (await once(createInterface(worker.stdout), 'line')) as [string];
  const pid = Number(line);
  expect(isAlive(pid)).toBe(true);
  worker.kill('SIGKILL');
  await until('the process is gone', () => !isAlive(pid));
});
