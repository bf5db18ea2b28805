import { unlessAborted } from '../../../shared/base/deadline.ts';
import { defined } from '../../../shared/base/collections.ts';
import { systemClock, type Clock } from '../../../shared/base/clock.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import type { Message, Sensitivity } from '../../../shared/contract/message.ts';
import { AnswerBuilder, type AnswerEnd } from '../answer-builder.ts';
import { cancelledCall, LlmError, type LlmErrorKind } from '../errors.ts';
import type { InputKind, LlmAnswer, LlmPart, LlmProvider, LlmRequest } from '../provider.ts';
import { sandboxEventOf, type SandboxEvent } from './sandbox-event.ts';
import { turnOf } from './scripted.ts';
import { untilAborted, watched, type Watchdog } from '../watchdog.ts';

export interface BoxRequest {
  /** The session to go on with; absent: a new one. */
  readonly sessionId: string | undefined;
  readonly request: LlmRequest;
  readonly signal: AbortSignal;
}

/** What goes to the box beside the message. */
export interface SandboxPromptContext {
  readonly system: string;
  /** The whole conversation, for boxes that keep none. */
  readonly messages: readonly Message[];
  readonly sessionId: string | undefined;
  /** The bytes of a file of a message. */
  readonly readFile?: LlmRequest['readFile'];
  /**
   * The stream of this message broke off after so many events: go on with the next one and do not prompt again. Absent
   * for a new message.
   */
  readonly resumeAfter?: number;
  readonly signal: AbortSignal;
}

/** Times in milliseconds. */
export interface SandboxPromptOptions<Box> {
  /** Finds or makes the box of a session. Asked for each message, and again to reconnect. */
  getBox(wanted: BoxRequest): Box | Promise<Box>;
  /** Sends the message, which is the newest of the user, and streams what the box does. */
  streamPrompt(box: Box, message: string, context: SandboxPromptContext): AsyncIterable<unknown>;
  /** The session that the box is in, as soon as it has one. */
  getSessionId(box: Box): string | undefined | Promise<string | undefined>;
  /** Translates an event of the box; asked first. `null` drops it, undefined leaves it to the default translation. */
  mapEvent?(event: unknown): SandboxEvent | null | undefined;
  /** Name in attempts, errors and prices. Default `sandbox`. */
  readonly id?: string;
  /** Longest wait for the box and its first event. Default 120,000. */
  readonly startTimeoutMs?: number;
  /** Longest silence after that. Default 300,000: tools run in the box. */
  readonly idleTimeoutMs?: number;
  /** What the box may see. Default: public texts only. */
  readonly acceptsSensitivity?: readonly Sensitivity[];
  /** What the box reads. The context then has `readFile` for the bytes. Default: text. */
  readonly input?: readonly InputKind[];
  readonly clock?: Clock;
}

/**
 * An agent in a remote box as a provider: one call is one whole turn there. Its tools run in the box; here they are only
 * emitted. The session of the box comes back as `sessionToken`, and the next call continues it. A stream that breaks off
 * before its final event is resumed once, by the session id; after that it is a `transport` error. Agents that
 * have tools of their own cannot use it: the box has no way to call them.
 */
export function createSandboxPromptBackend<Box>(options: SandboxPromptOptions<Box>): LlmProvider {
  const { id = 'sandbox', acceptsSensitivity, input, clock = systemClock, startTimeoutMs = 120_000 } = options;
  return {
    id,
    capabilities: { tools: false, reasoning: true },
    ...defined({ acceptsSensitivity, inputOf: input && (() => input) }),
    generate: (request, onPart, signal) =>
      watched({ id, who: `the box of provider ${id}`, clock }, signal, async (watchdog, stop) => {
        const call = new PromptCall({ options, id, request, watchdog, signal: stop }, onPart);
        watchdog.expect(startTimeoutMs);
        await call.read();
        if (signal.aborted) throw cancelledCall(id, signal);
        return call.answer();
      }),
  };
}

interface Prompting<Box> {
  readonly options: SandboxPromptOptions<Box>;
  readonly id: string;
  readonly request: LlmRequest;
  readonly watchdog: Watchdog;
  readonly signal: AbortSignal;
}

/** One message to a box, over at most two connections. */
class PromptCall<Box> {
  readonly #given: Prompting<Box>;
  readonly #builder: AnswerBuilder;
  #sessionId: string | undefined;
  #received = 0;
  #hasText = false;
  #final: AnswerEnd | undefined;

  constructor(given: Prompting<Box>, onPart: (part: LlmPart) => void) {
    this.#given = given;
    this.#builder = new AnswerBuilder(given.id, onPart);
    this.#sessionId = given.request.sessionToken;
  }

  async read(): Promise<void> {
    const broken = await this.#connect();
    if (this.#final) return;
    if (this.#sessionId === undefined) throw this.#brokenOff(broken, 'it has no session to reconnect to');
    const again = await this.#connect(this.#received);
    if (!this.#final) throw this.#brokenOff(again ?? broken, 'also after one reconnect');
  }

  /** Reads one stream of the box. Resolves with what broke it off; a stream that just ends is no failure by itself. */
  async #connect(resumeAfter?: number): Promise<unknown> {
    const { options, request, watchdog, signal } = this.#given;
    let box: Box | undefined;
    try {
      signal.throwIfAborted();
      const sessionId = this.#sessionId;
      const found = await unlessAborted(options.getBox({ sessionId, request, signal }), signal);
      box = found;
      const context = { ...promptOf(request), sessionId, ...defined({ resumeAfter }), signal };
      const stream = options.streamPrompt(found, turnOf(request).input, context);
      for await (const event of untilAborted(stream, signal)) {
        if (this.#received === 0) watchdog.expect(options.idleTimeoutMs ?? 300_000);
        else watchdog.seen();
        this.#received++;
        this.#take(event);
        if (this.#final) break;
      }
      return undefined;
    } catch (error) {
      // Ours to report: silence, a cancellation, an answer that is too large. Everything else is the connection's.
      if (signal.aborted) throw signal.reason;
      if (error instanceof ReaderError) throw error.cause;
      return error;
    } finally {
      if (box !== undefined && !signal.aborted) {
        this.#sessionId = (await this.#sessionOf(box).catch(() => undefined)) ?? this.#sessionId;
      }
    }
  }

  #take(event: unknown): void {
    const own = this.#given.options.mapEvent?.(event);
    const mapped = own === undefined ? sandboxEventOf(event) : own;
    if (!mapped) return;
    try {
      this.#emit(mapped);
    } catch (error) {
      throw new ReaderError(error);
    }
  }

  #emit(event: SandboxEvent): void {
    switch (event.type) {
      case 'text':
      case 'reasoning':
        this.#hasText ||= event.type === 'text' && event.delta !== '';
        return this.#builder.add(event.type, event.delta);
      case 'tool_call':
        return this.#builder.relay({ type: 'tool_relayed_call', id: event.id, name: event.name, args: event.args });
      case 'tool_result': {
        const { id, output, isError = false } = event;
        return this.#builder.relay({ type: 'tool_relayed_result', id, output, isError });
      }
      case 'final': {
        if (!this.#hasText && event.text !== undefined) this.#builder.add('text', event.text);
        this.#final = { finishReason: event.finishReason ?? 'stop', usage: event.usage };
        return;
      }
      case 'error':
        throw this.#error('overloaded', `failed: ${event.message}`);
      default:
        assertNever(event);
    }
  }

  answer(): LlmAnswer {
    const answer = this.#builder.finish(this.#final ?? { finishReason: 'error' });
    return { ...answer, ...defined({ sessionToken: this.#sessionId }) };
  }

  async #sessionOf(box: Box): Promise<string | undefined> {
    const { options, signal } = this.#given;
    return await unlessAborted(options.getSessionId(box), signal);
  }

  #brokenOff(cause: unknown, detail: string): LlmError {
    return this.#error('transport', `ended its stream without a final event; ${detail}`, cause);
  }

  #error(kind: LlmErrorKind, what: string, cause?: unknown): LlmError {
    const { id } = this.#given;
    return new LlmError(kind, id, `the box of provider ${id} ${what}`, { cause });
  }
}

/** What our own side threw while it read: no fault of the connection, so no reason to make another one. */
class ReaderError extends Error {
  constructor(cause: unknown) {
    super('the reader failed', { cause });
  }
}

function promptOf({ messages, readFile }: LlmRequest) {
  const system = messages.map((message) => (message.role === 'system' ? message.content : '')).filter((text) => text);
  const said = messages.filter(({ role }) => role !== 'system');
  return { system: system.join('\n\n'), messages: said, ...defined({ readFile }) };
}
