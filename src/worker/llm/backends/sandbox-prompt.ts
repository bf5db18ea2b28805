import { unlessAborted } from '../../../shared/base/deadline.ts';
import { defined } from '../../../shared/base/collections.ts';
import { systemClock, type Clock } from '../../../shared/base/clock.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import type { FinishReason } from '../../../shared/contract/event.ts';
import type { Message, Sensitivity } from '../../../shared/contract/message.ts';
import type { Usage } from '../../../shared/contract/money.ts';
import { AnswerBuilder } from '../answer-builder.ts';
import { cancelledCall, LlmError } from '../errors.ts';
import type { LlmAnswer, LlmPart, LlmProvider, LlmRequest } from '../provider.ts';
import { sandboxEventOf, type SandboxEvent } from './sandbox-event.ts';
import { untilAborted, Watchdog } from '../watchdog.ts';

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
  readonly clock?: Clock;
}

/**
 * An agent in a remote box as a provider: one call is one whole turn there. Its tools run in the box; here they are only
 * emitted. The session of the box comes back as `sessionToken`, and the next call continues it. A stream that breaks off
 * before its final event is resumed once, by the session id; after that it is a `transport` error. Agents that
 * have tools of their own cannot use it: the box has no way to call them.
 */
export function createSandboxPromptBackend<Box>(options: SandboxPromptOptions<Box>): LlmProvider {
  const { id = 'sandbox', acceptsSensitivity } = options;
  return {
    id,
    capabilities: { tools: false, reasoning: true },
    ...defined({ acceptsSensitivity }),
    generate: (request, onPart, signal) => new PromptCall(options, id, request, onPart, signal).run(),
  };
}

interface Final {
  readonly finishReason: FinishReason;
  readonly usage: Usage | undefined;
}

/** One message to a box, over at most two connections. */
class PromptCall<Box> {
  readonly #options: SandboxPromptOptions<Box>;
  readonly #id: string;
  readonly #request: LlmRequest;
  readonly #builder: AnswerBuilder;
  readonly #signal: AbortSignal;
  readonly #stop = new AbortController();
  readonly #watchdog: Watchdog;
  #sessionId: string | undefined;
  #received = 0;
  #hasText = false;
  #final: Final | undefined;

  constructor(
    options: SandboxPromptOptions<Box>,
    id: string,
    request: LlmRequest,
    onPart: (part: LlmPart) => void,
    signal: AbortSignal,
  ) {
    this.#options = options;
    this.#id = id;
    this.#request = request;
    this.#builder = new AnswerBuilder(id, onPart);
    this.#signal = signal;
    this.#sessionId = request.sessionToken;
    this.#watchdog = new Watchdog(options.clock ?? systemClock, (limitMs) =>
      this.#stop.abort(new LlmError('timeout', id, `the box of provider ${id} was silent for ${limitMs} ms`)),
    );
  }

  async run(): Promise<LlmAnswer> {
    const onAbort = () => this.#stop.abort(cancelledCall(this.#id, this.#signal));
    if (this.#signal.aborted) onAbort();
    this.#signal.addEventListener('abort', onAbort, { once: true });
    try {
      this.#watchdog.expect(this.#options.startTimeoutMs ?? 120_000);
      const broken = await this.#connect();
      if (!this.#final) await this.#reconnect(broken);
      if (this.#signal.aborted) throw cancelledCall(this.#id, this.#signal);
      return this.#answer();
    } finally {
      this.#watchdog.stop();
      this.#signal.removeEventListener('abort', onAbort);
    }
  }

  /** Reads one stream of the box. Resolves with what broke it off; a stream that just ends is no failure by itself. */
  async #connect(resumeAfter?: number): Promise<unknown> {
    const { signal } = this.#stop;
    let box: Box | undefined;
    try {
      signal.throwIfAborted();
      const wanted = { sessionId: this.#sessionId, request: this.#request, signal };
      const found = await unlessAborted(this.#options.getBox(wanted), signal);
      box = found;
      const context = {
        ...promptOf(this.#request),
        sessionId: this.#sessionId,
        ...defined({ resumeAfter }),
        signal,
      };
      const stream = this.#options.streamPrompt(found, lastUserText(this.#request), context);
      for await (const event of untilAborted(stream, signal)) {
        if (this.#received === 0) this.#watchdog.expect(this.#options.idleTimeoutMs ?? 300_000);
        else this.#watchdog.seen();
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

  async #reconnect(cause: unknown): Promise<void> {
    if (this.#sessionId === undefined) throw this.#brokenOff(cause, 'it has no session to reconnect to');
    const again = await this.#connect(this.#received);
    if (!this.#final) throw this.#brokenOff(again ?? cause, 'also after one reconnect');
  }

  #take(event: unknown): void {
    const own = this.#options.mapEvent?.(event);
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
        this.#hasText ||= event.delta !== '';
        return this.#builder.text(event.delta);
      case 'reasoning':
        return this.#builder.reasoning(event.delta);
      case 'tool_call':
        return this.#builder.relay({ type: 'tool_relayed_call', id: event.id, name: event.name, args: event.args });
      case 'tool_result': {
        const { id, output, isError = false } = event;
        return this.#builder.relay({ type: 'tool_relayed_result', id, output, isError });
      }
      case 'final': {
        if (!this.#hasText && event.text !== undefined) this.#builder.text(event.text);
        this.#final = { finishReason: event.finishReason ?? 'stop', usage: event.usage };
        return;
      }
      case 'error':
        throw new LlmError('overloaded', this.#id, `the box of provider ${this.#id} failed: ${event.message}`);
      default:
        assertNever(event);
    }
  }

  #answer(): LlmAnswer {
    const answer = this.#builder.finish(this.#final ?? { finishReason: 'error' });
    return { ...answer, ...defined({ sessionToken: this.#sessionId }) };
  }

  async #sessionOf(box: Box): Promise<string | undefined> {
    return await unlessAborted(this.#options.getSessionId(box), this.#stop.signal);
  }

  #brokenOff(cause: unknown, detail: string): LlmError {
    const text = `the box of provider ${this.#id} ended its stream without a final event; ${detail}`;
    return new LlmError('transport', this.#id, text, { cause });
  }
}

/** What our own side threw while it read: no fault of the connection, so no reason to make another one. */
class ReaderError extends Error {
  constructor(cause: unknown) {
    super('the reader failed', { cause });
  }
}

function promptOf({ messages }: LlmRequest) {
  const system = messages.map((message) => (message.role === 'system' ? message.content : '')).filter((text) => text);
  return { system: system.join('\n\n'), messages: messages.filter(({ role }) => role !== 'system') };
}

function lastUserText({ messages }: LlmRequest): string {
  const last = messages.findLast(({ role }) => role === 'user');
  return last?.role === 'user' ? last.content : '';
}
