import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import variant from '@jitl/quickjs-wasmfile-release-sync';
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSRuntime,
  type QuickJSSyncVariant,
} from 'quickjs-emscripten-core';
import { prelude } from './prelude.ts';
import { type ScriptCallReply, maxErrorChars } from './protocol.ts';

// The types of Node do not have it.
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => CompiledEngine;
  Memory: new (pages: { initial: number; maximum: number }) => { grow(pages: number): number };
};

/** The code of the engine, from which every script gets an engine of its own. */
export type CompiledEngine = object;

export function compileEngine(): CompiledEngine {
  const file = createRequire(import.meta.url).resolve('@jitl/quickjs-wasmfile-release-sync/wasm');
  return new WebAssembly.Module(readFileSync(file));
}

/** In pages of 64 KB: an engine's memory begins with 16 MB and never has more than 64. */
const memoryPages = { initial: 256, maximum: 1024 };
/** Small enough that the engine notices the end of its stack before the process does: see `--stack-size`. */
const maxStackBytes = 128 * 1024;
/** Emscripten asks for more than it needs, then for less and less of that. */
const triesToGrow = 3;
const jobsAtOnce = 1_000;

/** What the prelude calls. */
export interface EngineFunctions {
  call(id: number, name: string, args: string): void;
  log(line: string): void;
  done(what: string, body: string): void;
}

/**
 * A JavaScript engine with memory of its own. Whatever throws out of it, except for what its methods answer, means that
 * it cannot be used any more.
 */
export class ScriptEngine {
  readonly #runtime: QuickJSRuntime;
  readonly #context: QuickJSContext;
  readonly #isOutOfMemory: () => boolean;
  #hands: { readonly start: QuickJSHandle; readonly settle: QuickJSHandle } | undefined;
  #problem = '';

  private constructor(runtime: QuickJSRuntime, isOutOfMemory: () => boolean) {
    this.#runtime = runtime;
    this.#context = runtime.newContext();
    this.#isOutOfMemory = isOutOfMemory;
  }

  /** `shouldStop` is asked again and again while code runs, and stops it. */
  static async open(code: CompiledEngine, shouldStop: () => boolean): Promise<ScriptEngine> {
    const wasmMemory = new WebAssembly.Memory(memoryPages);
    const grow = wasmMemory.grow.bind(wasmMemory);
    let refusals = 0;
    let isOutOfMemory = false;
    // The engine's own limit has no effect in WebAssembly: the memory's is the one that applies.
    wasmMemory.grow = (pages) => {
      try {
        const before = grow(pages);
        refusals = 0;
        return before;
      } catch (error) {
        isOutOfMemory ||= ++refusals === triesToGrow;
        throw error;
      }
    };
    // Its types stand for another form of the package than the one that is loaded.
    const base = variant as unknown as QuickJSSyncVariant;
    const quickjs = await newQuickJSWASMModuleFromVariant(newVariant(base, { wasmModule: code, wasmMemory }));
    const runtime = quickjs.newRuntime();
    runtime.setMaxStackSize(maxStackBytes);
    runtime.setInterruptHandler(shouldStop);
    return new ScriptEngine(runtime, () => isOutOfMemory);
  }

  /** Memory was asked for and could not be had. */
  get isOutOfMemory(): boolean {
    return this.#isOutOfMemory();
  }

  prepare(functions: EngineFunctions, settings: string): void {
    const context = this.#context;
    const make = context.unwrapResult(context.evalCode(prelude, 'prelude.js'));
    const args = [...functionHandles(context, functions), context.newString(settings)];
    const made = context.unwrapResult(context.callFunction(make, context.undefined, args));
    this.#hands = { start: context.getProp(made, 'start'), settle: context.getProp(made, 'settle') };
  }

  /** Begins the script. Answers why it does not compile, if it does not. */
  start(source: string): string | undefined {
    // Of an expression its value counts, of statements what they return.
    const script = this.#functionOf(`(\n${withoutEnd(source)}\n)`) ?? this.#functionOf(`{\n${source}\n}`);
    if (script) this.#invoke('start', [script]);
    return script ? undefined : this.#problem;
  }

  settle(id: number, result: ScriptCallReply['result']): void {
    const context = this.#context;
    const body = result.ok ? (result.json ?? '') : JSON.stringify({ kind: result.kind, message: result.message });
    const isFine = result.ok ? context.true : context.false;
    this.#invoke('settle', [context.newNumber(id), isFine, context.newString(body)]);
  }

  /** Lets the script go on for a while. False: it cannot, without another result. */
  proceed(): boolean {
    this.#runtime.executePendingJobs(jobsAtOnce).dispose();
    return this.#runtime.hasPendingJob();
  }

  #functionOf(body: string): QuickJSHandle | undefined {
    const compiled = this.#context.evalCode(`(async () => ${body})`, 'script.js');
    if (!compiled.error) return compiled.value;
    const thrown = thrownIn(JSON.stringify(this.#context.dump(compiled.error)));
    compiled.error.dispose();
    this.#problem = explain({ ...thrown, name: '' });
    return undefined;
  }

  #invoke(hand: 'start' | 'settle', args: QuickJSHandle[]): void {
    if (!this.#hands) throw new Error('the engine is not prepared');
    this.#context.callFunction(this.#hands[hand], this.#context.undefined, args).dispose();
    for (const handle of args) handle.dispose();
  }
}

/** Our functions as the prelude sees them. None of them ever throws into the engine. */
function functionHandles(context: QuickJSContext, functions: EngineFunctions): QuickJSHandle[] {
  const guarded = (name: string, run: (args: readonly QuickJSHandle[]) => void) =>
    context.newFunction(name, (...args) => {
      try {
        run(args);
      } catch {
        // A value of the script that cannot be read counts as not given.
      }
    });
  const text = (handle: QuickJSHandle | undefined) =>
    handle && context.typeof(handle) === 'string' ? context.getString(handle) : '';
  const number = (handle: QuickJSHandle | undefined) =>
    handle && context.typeof(handle) === 'number' ? context.getNumber(handle) : Number.NaN;
  return [
    guarded('call', ([id, name, args]) => functions.call(number(id), text(name), text(args))),
    guarded('log', ([line]) => functions.log(text(line))),
    guarded('done', ([what, body]) => functions.done(text(what), text(body))),
  ];
}

/** Without the semicolons that an expression may end with. */
function withoutEnd(source: string): string {
  let end = source.length;
  while (end > 0 && (source[end - 1] === ';' || source[end - 1]?.trim() === '')) end--;
  return source.slice(0, end);
}

/** What a script threw, in texts that the script chose. */
interface Thrown {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

/** Reads it from JSON text that the script had its hands on. */
export function thrownIn(json: string): Thrown {
  const thrown = parsed(json);
  const field = (name: string) => {
    const value: unknown = thrown === null || typeof thrown !== 'object' ? undefined : Reflect.get(thrown, name);
    return typeof value === 'string' ? value : '';
  };
  return { name: field('name'), message: field('message'), stack: field('stack') };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** An error of a script in one line, with the place in its source. */
export function explain({ name, message, stack }: Thrown): string {
  const what = name === '' || name === 'Error' ? message : `${name}: ${message}`;
  return `${what.slice(0, maxErrorChars).toWellFormed() || 'the script threw nothing'}${positionIn(stack)}`;
}

/** Where in the script a stack begins, as ` (line 3, column 5)`. Empty when it does not touch the script. */
function positionIn(stack: string): string {
  const [, line, column] = /script\.js:(\d{1,7})(?::(\d{1,7}))?/.exec(stack.slice(0, maxErrorChars)) ?? [];
  // The first line is the one that makes a function of the script.
  return line === undefined || line === '1' ? '' : ` (line ${Number(line) - 1}${column ? `, column ${column}` : ''})`;
}
