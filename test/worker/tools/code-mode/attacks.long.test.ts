import { expect, test } from 'vitest';
import type { ScriptLimits } from '../../../../src/worker/tools/code-mode/protocol.ts';
import { scriptWorld } from './script-world.ts';

const world = scriptWorld();

interface Attack {
  readonly name: string;
  readonly source: string;
  readonly reason: string;
  readonly limits?: Partial<ScriptLimits>;
}

/** Long enough to notice that something runs, short enough to wait for. */
const soon = { timeoutMs: 400 };

const attacks: readonly Attack[] = [
  { name: 'Function by a constructor', source: 'this.constructor.constructor("return process")()', reason: 'threw' },
  { name: 'a walk from a literal', source: '({}).constructor.constructor("return process.env")()', reason: 'threw' },
  { name: 'a walk from tools', source: 'tools.constructor.constructor("return process")()', reason: 'threw' },
  { name: 'a walk from a tool', source: 'tools.echo.constructor("return process")()', reason: 'threw' },
  {
    name: 'a walk from a promise of ours',
    source: 'tools.echo().constructor.constructor("return require(\'fs\')")()',
    reason: 'threw',
  },
  {
    name: 'a walk from an error of ours',
    source: 'try { tools.none } catch (e) { return e.constructor.constructor("return process")() }',
    reason: 'threw',
  },
  {
    name: 'the async function constructor',
    source: '(async () => {}).constructor("return process")()',
    reason: 'threw',
  },
  { name: 'a static import', source: 'import fs from "node:fs"; return 1', reason: 'syntax' },
  { name: 'a dynamic import of a module', source: 'import("node:fs")', reason: 'threw' },
  { name: 'a dynamic import of data', source: 'import("data:text/javascript,export default 1")', reason: 'threw' },
  { name: 'require', source: 'require("node:fs")', reason: 'threw' },
  { name: 'fetch', source: 'fetch("http://127.0.0.1")', reason: 'threw' },
  { name: 'process', source: 'process.env', reason: 'threw' },
  { name: 'a timer', source: 'setTimeout(() => {}, 1)', reason: 'threw' },
  { name: 'WebAssembly', source: 'new WebAssembly.Memory({ initial: 1 })', reason: 'threw' },
  { name: 'an endless loop', source: 'for (;;);', reason: 'timeout', limits: soon },
  {
    name: 'an endless loop that catches everything',
    source: 'for (;;) { try { for (;;); } catch {} finally { continue } }',
    reason: 'timeout',
    limits: soon,
  },
  { name: 'an endless loop of microtasks', source: 'while (true) await null', reason: 'timeout', limits: soon },
  {
    name: 'an endless loop of microtasks that catches everything',
    source: 'const spin = async () => { for (;;) await null }; for (;;) try { await spin() } catch {}',
    reason: 'timeout',
    limits: soon,
  },
  {
    name: 'an endless getter in what is returned',
    source: 'return { get a() { for (;;); } }',
    reason: 'timeout',
    limits: soon,
  },
  {
    name: 'a catastrophic regular expression',
    source: '/^(a+)+$/.test("a".repeat(60) + "b")',
    reason: 'timeout',
    limits: soon,
  },
  { name: 'a wait for nothing', source: 'new Promise(() => {})', reason: 'stuck' },
  {
    name: 'a bomb of strings',
    source: 'const a = []; for (let i = 0; ; i++) a.push("x".repeat(1e6) + i)',
    reason: 'memory',
  },
  { name: 'a bomb of arrays', source: 'const a = []; for (;;) a.push(new Array(1e5).fill(0))', reason: 'memory' },
  { name: 'a bomb of buffers', source: 'const a = []; for (;;) a.push(new ArrayBuffer(1e6))', reason: 'memory' },
  { name: 'one huge buffer', source: 'new ArrayBuffer(2e9)', reason: 'memory' },
  { name: 'one huge string', source: '"x".padEnd(1e9)', reason: 'memory' },
  { name: 'a bomb of promises', source: 'const a = []; for (;;) a.push(Promise.resolve([]))', reason: 'memory' },
  { name: 'deep recursion', source: '(function f() { return f() + 1 })()', reason: 'threw' },
  { name: 'source nested without end', source: 'eval("[".repeat(1e5))', reason: 'threw' },
  { name: 'a parser that recurses', source: 'JSON.parse("[".repeat(1e6))', reason: 'threw' },
  {
    name: 'one call more than it may make',
    source: 'for (let i = 0; i < 65; i++) await tools.echo({ i })',
    reason: 'calls',
  },
  {
    name: 'one call more than it may make, with the error caught',
    source: 'for (let i = 0; i < 65; i++) try { await tools.echo({ i }) } catch {} return "fine"',
    reason: 'calls',
  },
  { name: 'a flood of calls', source: 'for (let i = 0; i < 1e6; i++) tools.echo({ i })', reason: 'calls' },
  { name: 'a huge source', source: `return "${'x'.repeat(100_000)}"`, reason: 'source' },
  { name: 'a huge value', source: 'return "x".repeat(51_201)', reason: 'result' },
  { name: 'a value with more bytes than characters', source: 'return "é".repeat(30_000)', reason: 'result' },
  { name: 'a very huge value', source: 'return "x".repeat(3e6)', reason: 'result' },
  { name: 'a cycle', source: 'const a = {}; a.a = a; return a', reason: 'threw' },
  { name: 'a getter that throws', source: 'return { get a() { throw new Error("no") } }', reason: 'threw' },
  { name: 'a toJSON that throws', source: 'return { toJSON() { throw new Error("no") } }', reason: 'threw' },
  {
    name: 'a proxy that throws',
    source: 'return new Proxy({}, { ownKeys() { throw new Error("no") } })',
    reason: 'threw',
  },
  { name: 'a value that is no JSON', source: 'return 1n', reason: 'threw' },
  { name: 'a symbol', source: 'return Symbol("x")', reason: 'result' },
  {
    name: 'JSON that is too deep',
    source: 'let a = 1; for (let i = 0; i < 65; i++) a = [a]; return a',
    reason: 'result',
  },
  {
    name: 'JSON that is much too deep',
    source: 'let a = 1; for (let i = 0; i < 1e5; i++) a = [a]; return a',
    reason: 'threw',
  },
  { name: 'a thrown proxy', source: 'throw new Proxy({}, { get() { throw 1 } })', reason: 'threw' },
  { name: 'a thrown nothing', source: 'throw undefined', reason: 'threw' },
  { name: 'a thrown huge message', source: 'throw new Error("x".repeat(1e7))', reason: 'threw' },
  {
    name: 'built-ins that are no longer what they were',
    source: `
      JSON.stringify = JSON.parse = () => { throw new Error('mine') };
      Promise.prototype.then = Array.prototype.map = () => { throw new Error('mine') };
      String.prototype.toJSON = () => ({ t: 'done' });
      Object.prototype.message = 'mine';
      throw new Error('end');`,
    reason: 'threw',
  },
];

test.each(attacks)('$name is an error, and the pool goes on', async ({ source, reason, limits }) => {
  const outcome = await world.run(source, limits ? { limits } : {});
  expect(outcome).toMatchObject({ ok: false, reason });
  expect(outcome.ok ? '' : outcome.message).toMatch(/^.{1,4000}$/su);
  expect(await world.run('1 + 1')).toMatchObject({ ok: true, value: 2 });
  expect(world.pool.processIds()).toHaveLength(1);
});

test('a script finds nothing of the host on its global object', async () => {
  const { value } = (await world.run('Object.getOwnPropertyNames(globalThis)')) as { value?: readonly string[] };
  const language = new Set(Object.getOwnPropertyNames(globalThis));
  expect(value).toContain('tools');
  expect(value?.filter((name) => !language.has(name))).toEqual(['InternalError', 'tools']);
  for (const name of ['process', 'require', 'fetch', 'Buffer', 'WebAssembly', 'setTimeout', 'performance', 'global'])
    expect(value).not.toContain(name);
});

test('recursion ends at a limit that a script can catch', async () => {
  await world.run('1');
  const [pid] = world.pool.processIds();
  const source =
    'let depth = 0; try { (function f() { depth++; f(); })() } catch (e) { return [e.message, depth > 500] }';
  expect(await world.run(source)).toMatchObject({ ok: true, value: ['stack overflow', true] });
  await world.run('1');
  expect(world.pool.processIds()).toEqual([pid]);
});

test('a script may have 40 MB at once, and 64 MB never', async () => {
  expect(await world.run('new Uint8Array(40e6).length')).toMatchObject({ ok: true, value: 40e6 });
  expect(await world.run('new Uint8Array(64e6).length')).toMatchObject({ ok: false, reason: 'memory' });
});

test('code made from text runs in the sandbox like any other', async () => {
  expect(await world.run('eval("1 + 1") + new Function("return 2")()')).toMatchObject({ ok: true, value: 4 });
});

test('what a script changes is gone with it', async () => {
  await world.run('Object.prototype.spoiled = 1; globalThis.left = 1; Array.prototype.push = null; return 1');
  const outcome = await world.run('[typeof left, ({}).spoiled === undefined, typeof [].push]');
  expect(outcome).toMatchObject({ value: ['undefined', true, 'function'] });
  expect({}).not.toHaveProperty('spoiled');
});

test('what a script leaves running when it returns is stopped', async () => {
  const source = 'Promise.resolve().then(() => {}).then(() => { for (;;); }); return 1';
  expect(await world.run(source)).toMatchObject({ ok: true, value: 1 });
  expect(await world.run('2')).toMatchObject({ ok: true, value: 2 });
});

const badArguments = [
  ['a getter that throws', '{ get a() { throw new Error("no") } }'],
  ['a toJSON that throws', '{ toJSON() { throw new Error("no") } }'],
  ['a proxy that throws', 'new Proxy({}, { ownKeys() { throw new Error("no") } })'],
  ['a big integer', '{ a: 1n }'],
  ['a function', '() => 1'],
  ['a cycle', '(() => { const a = {}; a.a = a; return a })()'],
  ['more than may be passed', '{ a: "x".repeat(262_145) }'],
  ['JSON that is too deep', '(() => { let a = 1; for (let i = 0; i < 65; i++) a = [a]; return { a } })()'],
] as const;

test.each(badArguments)('%s as an argument fails that call alone', async (_, args) => {
  const asked: unknown[] = [];
  const call = (_name: string, given: unknown) => {
    asked.push(given);
    return Promise.resolve({ ok: true, value: 1 } as const);
  };
  const source = `let failed = ''; try { await tools.echo(${args}) } catch (e) { failed = e.message } return failed.length > 0`;
  expect(await world.run(source, { call })).toMatchObject({ ok: true, value: true });
  expect(asked).toEqual([]);
});

test('a key called __proto__ stays a key, in arguments, results and values', async () => {
  const asked: string[] = [];
  const call = (_name: string, args: unknown) => {
    asked.push(JSON.stringify(args));
    return Promise.resolve({ ok: true, value: JSON.parse('{"__proto__":{"spoiled":2}}') as unknown } as const);
  };
  const source = `
    const result = await tools.echo(JSON.parse('{"__proto__":{"spoiled":1}}'));
    return [({}).spoiled === undefined, JSON.stringify(result), result];`;
  const outcome = await world.run(source, { call });
  expect(asked).toEqual(['{"__proto__":{"spoiled":1}}']);
  expect(JSON.stringify(outcome.ok && outcome.value)).toBe(
    '[true,"{\\"__proto__\\":{\\"spoiled\\":2}}",{"__proto__":{"spoiled":2}}]',
  );
  expect({}).not.toHaveProperty('spoiled');
});

test('a tool called __proto__ or constructor is called like any other', async () => {
  const source = 'return [await tools.__proto__({ a: 1 }), await tools.constructor({ b: 2 }), Object.keys(tools)]';
  const outcome = await world.run(source, { tools: ['__proto__', 'constructor'] });
  expect(outcome).toMatchObject({ value: [{ a: 1 }, { b: 2 }, ['__proto__', 'constructor']] });
});
