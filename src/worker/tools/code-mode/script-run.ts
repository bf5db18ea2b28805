import { ScriptEngine, type CompiledEngine, type EngineFunctions, explain, thrownIn } from './engine.ts';
import { maxLogLineChars, maxLogLines, type ScriptCallReply, type RunOrder } from './protocol.ts';
import type { ReportedOutcome, ScriptFailure } from './process.ts';

const outOfMemory = 'the script needs more than the 64 MB that it may have';

export interface ScriptPort {
  call(id: number, name: string, args: string): void;
  done(outcome: ReportedOutcome, logs: readonly string[], isSpent: boolean): void;
  /** Called again and again while a script computes, when nothing else of the process can run. */
  pulse(): void;
}

/**
 * One script in an engine of its own: fresh memory, nothing of an earlier script in it. Results of tool calls are
 * handed to the script in the order of its calls, so that the same script with the same results always does the same.
 */
export class ScriptRun {
  readonly #order: RunOrder;
  readonly #port: ScriptPort;
  readonly #endsAtMs: number;
  readonly #timer: NodeJS.Timeout;
  readonly #results = new Map<number, ScriptCallReply['result']>();
  readonly #logs: string[] = [];
  #engine: ScriptEngine | undefined;
  #calls = 0;
  #settled = 0;
  #hasEnded = false;
  /** Why the engine has to stop, as soon as there is a reason. */
  #stop: 'timeout' | 'calls' | undefined;

  constructor(order: RunOrder, port: ScriptPort) {
    this.#order = order;
    this.#port = port;
    this.#endsAtMs = performance.now() + order.limits.timeoutMs;
    this.#timer = setTimeout(() => this.#fail('timeout', this.#overTime()), order.limits.timeoutMs);
  }

  async start(code: CompiledEngine): Promise<void> {
    const { source, tools, nowMs, seed, limits } = this.#order;
    try {
      const engine = await ScriptEngine.open(code, () => this.#shouldStop());
      if (this.#hasEnded) return;
      this.#engine = engine;
      engine.prepare(this.#functions(), JSON.stringify({ tools, nowMs, seed, ...limits }));
      const problem = engine.start(source);
      if (problem === undefined) this.#proceed(engine);
      else this.#fail('syntax', problem);
    } catch (error) {
      this.#failBadly(error);
    }
  }

  settle(id: number, result: ScriptCallReply['result']): void {
    const engine = this.#engine;
    if (!engine || id <= this.#settled || id > this.#calls) return;
    this.#results.set(id, result);
    try {
      for (let next; !this.#hasEnded && (next = this.#results.get(this.#settled + 1));) {
        this.#results.delete(++this.#settled);
        engine.settle(this.#settled, next);
        this.#proceed(engine);
      }
    } catch (error) {
      this.#failBadly(error);
    }
  }

  #functions(): EngineFunctions {
    return {
      call: (id, name, args) => {
        if (this.#hasEnded || this.#stop) return;
        this.#calls = id;
        if (id > this.#order.limits.maxCalls) this.#stop = 'calls';
        else this.#port.call(id, name, args);
      },
      log: (line) => {
        if (this.#logs.length < maxLogLines) this.#logs.push(clip(line, maxLogLineChars));
        else if (this.#logs.length === maxLogLines) this.#logs.push('… more was printed and not kept');
      },
      done: (what, body) => this.#conclude(what, body),
    };
  }

  /** Runs the script until it waits for a tool, or ends. */
  #proceed(engine: ScriptEngine): void {
    while (engine.proceed() && !this.#hasEnded && !this.#stop);
    if (this.#hasEnded) return;
    if (this.#stop) this.#failStopped();
    else if (this.#calls === this.#settled)
      this.#fail('stuck', 'the script waits for something that never comes: there are no timers and no events here');
  }

  #shouldStop(): boolean {
    this.#port.pulse();
    if (performance.now() > this.#endsAtMs) this.#stop ??= 'timeout';
    // What a script left running when it returned is stopped, too.
    return this.#hasEnded || this.#stop !== undefined;
  }

  #conclude(what: string, body: string): void {
    const { maxResultBytes } = this.#order.limits;
    const tooLarge = (size: string) =>
      `the script returned ${size} of JSON, at most ${maxResultBytes} bytes: return less of it`;
    if (this.#hasEnded) return;
    // An interrupted script may believe that it has ended by itself.
    if (this.#stop) this.#failStopped();
    else if (what === 'not_json') this.#fail('result', 'the script returned a value that is no JSON');
    else if (what === 'too_large') this.#fail('result', tooLarge(`${body} characters`));
    else if (what === 'error') this.#fail('threw', explain(thrownIn(body)));
    else {
      const size = Buffer.byteLength(body);
      if (size > maxResultBytes) this.#fail('result', tooLarge(`${size} bytes`));
      else this.#end({ ok: true, json: body === '' ? undefined : body });
    }
  }

  #failStopped(): void {
    const { maxCalls } = this.#order.limits;
    if (this.#stop === 'calls') this.#fail('calls', `the script made more than ${maxCalls} tool calls`);
    else this.#fail('timeout', this.#overTime());
  }

  #overTime(): string {
    return `the script took longer than ${this.#order.limits.timeoutMs} ms`;
  }

  /** The engine itself failed: what is in its memory is not relied on any more. */
  #failBadly(error: unknown): void {
    if (this.#isOutOfMemory()) this.#fail('memory', outOfMemory, true);
    else if (error instanceof RangeError) this.#fail('threw', 'the script calls itself too often', true);
    else this.#fail('crashed', 'the sandbox failed', true);
  }

  #fail(reason: ScriptFailure, message: string, isSpent = false): void {
    // Without memory there is not even an error object.
    const mayBeMemory = reason === 'stuck' || reason === 'threw';
    if (mayBeMemory && this.#isOutOfMemory()) this.#end({ ok: false, reason: 'memory', message: outOfMemory }, true);
    else this.#end({ ok: false, reason, message }, isSpent || reason === 'timeout');
  }

  #end(outcome: ReportedOutcome, isSpent = false): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    this.#port.done(outcome, this.#logs, isSpent || this.#isOutOfMemory());
  }

  #isOutOfMemory(): boolean {
    return this.#engine?.isOutOfMemory ?? false;
  }
}

function clip(text: string, maxChars: number): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars)}…`;
}
