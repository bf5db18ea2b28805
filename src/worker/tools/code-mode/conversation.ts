import type { Clock } from '../../../shared/base/clock.ts';
import { orLate } from '../../../shared/base/deadline.ts';
import { depthOver } from '../../../shared/base/json.ts';
import { jsonOf } from '../execute/result.ts';
import type { ToolErrorKind } from '../../../shared/base/errors.ts';
import type { InnerOutcome } from '../tool.ts';
import { scriptGraceMs, maxJsonLevels, type ScriptLimits, type ScriptCallReply, type RunOrder } from './protocol.ts';
import type { ScriptProcess, ProcessMessage, ScriptFailure } from './process.ts';

export interface ScriptRequest extends Omit<RunOrder, 't' | 'seed'> {
  /** Whose it is: a process that ran a script of one tenant never runs one of another. */
  readonly tenant: string;
  /** Any text: the same one gives the same random numbers. */
  readonly seed: string;
  /** Ends the script at once. */
  readonly signal: AbortSignal;
  /** Carries out one call. A rejection is a failed call for the script. */
  call(name: string, args: unknown): Promise<InnerOutcome>;
}

/** What came of a script. `value` is plain JSON, undefined when it returned nothing. */
export type ScriptOutcome = {
  /** What it printed. Bounded, and never a secret of ours: it had none. */
  readonly logs: readonly string[];
  readonly calls: number;
} & (
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly reason: ScriptFailure; readonly message: string }
);

export interface ScriptEnd {
  readonly outcome: ScriptOutcome;
  /** The process is to be killed, if it is not dead already. */
  readonly isSpent: boolean;
  /** Resolves when the calls that the script left behind have ended, or their time is up. */
  readonly left: Promise<void>;
  /** For the log, when the process is to blame. */
  readonly why?: string | undefined;
}

/** Runs one script in a process that is ready. Resolves when the process is free again, or done for. Never rejects. */
export async function converse(
  process: Pick<ScriptProcess, 'listen' | 'send'>,
  order: RunOrder,
  request: ScriptRequest,
  clock: Clock,
): Promise<ScriptEnd> {
  const { signal, limits } = request;
  const startedMs = clock.monotonic();
  const conversation = conversationAbout(request, process);
  // At once: a process that is killed because of the abort must not be what ended the script.
  const abort = () => conversation.fail('aborted', 'the call was aborted');
  signal.addEventListener('abort', abort, { once: true });
  process.listen({
    message: (message) => conversation.take(message),
    gone: (why) => conversation.fail('crashed', 'the process of the script died', why),
  });
  if (signal.aborted) abort();
  else process.send(order);
  const late = () => conversation.fail('timeout', `the script took longer than ${limits.timeoutMs} ms`);
  await orLate(limits.timeoutMs + scriptGraceMs, conversation.end.promise, late, { clock });
  signal.removeEventListener('abort', abort);
  const ending = await conversation.end.promise;
  process.listen(undefined);
  const isCut = !ending.outcome.ok && (ending.outcome.reason === 'aborted' || ending.outcome.reason === 'timeout');
  const leftMs = isCut || signal.aborted ? 0 : limits.timeoutMs - (clock.monotonic() - startedMs);
  return { ...ending, left: leftBehind(conversation.inFlight, Math.max(scriptGraceMs, leftMs), signal, clock) };
}

/** The messages of the process and the worker about one script, until it has ended. */
function conversationAbout(request: ScriptRequest, process: Pick<ScriptProcess, 'send'>) {
  const { limits, tools } = request;
  const inFlight = new Set<Promise<void>>();
  const end = Promise.withResolvers<Omit<ScriptEnd, 'left'>>();
  let [calls, hasEnded] = [0, false];

  function call({ id, name, args }: Extract<ProcessMessage, { t: 'call' }>): void {
    const isAsked = id === calls + 1 && id <= limits.maxCalls;
    if (!isAsked || !tools.includes(name) || args.length > limits.maxArgsChars)
      throw new Error('a call that no script can make');
    calls++;
    const answered = answer(request, name, args).then((result) => {
      // The process may run the next script by then, which made no such call.
      if (!hasEnded) process.send({ t: 'result', id, result });
    });
    inFlight.add(answered);
    void answered.finally(() => inFlight.delete(answered));
  }

  return {
    inFlight,
    end,
    /** Ends the script without a value. The first end counts. `why` is for the log. */
    fail(reason: ScriptFailure, message: string, why?: string): void {
      hasEnded = true;
      end.resolve({ outcome: { ok: false, reason, message, logs: [], calls }, isSpent: true, why });
    },
    /** Takes a message of the process. Throws for one that no script process sends now. */
    take(message: ProcessMessage): void {
      if (hasEnded) throw new Error('the script has ended');
      if (message.t === 'ready') throw new Error('it was ready before');
      if (message.t === 'call') return call(message);
      hasEnded = true;
      end.resolve({ outcome: outcomeOf(message, calls, limits), isSpent: message.isSpent });
    },
  };
}

/** Throws for a value that the process itself would have refused. */
function outcomeOf(
  message: Extract<ProcessMessage, { t: 'done' }>,
  calls: number,
  limits: ScriptLimits,
): ScriptOutcome {
  const { outcome, logs } = message;
  if (!outcome.ok) return { ...outcome, logs, calls };
  const { json } = outcome;
  if (json === undefined) return { ok: true, value: undefined, logs, calls };
  if (Buffer.byteLength(json) > limits.maxResultBytes) throw new Error('a value over its bound');
  if (depthOver(json, maxJsonLevels)) {
    const problem = `the script returned JSON of more than ${maxJsonLevels} levels`;
    return { ok: false, reason: 'result', message: problem, logs, calls };
  }
  return { ok: true, value: JSON.parse(json) as unknown, logs, calls };
}

/** What the script gets for a call. Never rejects. */
async function answer(request: ScriptRequest, name: string, json: string): Promise<ScriptCallReply['result']> {
  try {
    if (depthOver(json, maxJsonLevels))
      return refused('invalid_input', `arguments of more than ${maxJsonLevels} levels`);
    const outcome = await request.call(name, JSON.parse(json));
    if (!outcome.ok) return { ok: false, kind: outcome.kind, message: outcome.message.slice(0, maxMessageChars) };
    const result = jsonOf(outcome.value);
    const { maxInnerResultBytes } = request.limits;
    if (result === undefined || Buffer.byteLength(result) <= maxInnerResultBytes) return { ok: true, json: result };
    return refused('invalid_output', `its result is larger than ${maxInnerResultBytes} bytes`);
  } catch {
    return refused('execution_failed', 'the call could not be carried out');
  }
}

const maxMessageChars = 2_000;

function refused(kind: ToolErrorKind, message: string): ScriptCallReply['result'] {
  return { ok: false, kind, message };
}

async function leftBehind(inFlight: ReadonlySet<Promise<void>>, waitMs: number, signal: AbortSignal, clock: Clock) {
  if (inFlight.size === 0) return;
  const all = Promise.allSettled(inFlight);
  await orLate(waitMs, all, () => {}, { clock, signal }).catch(() => orLate(scriptGraceMs, all, () => {}, { clock }));
}
