import { assertNever, RunError } from '../../shared/base/errors.ts';
import type { EventOf, RunEvent, TerminalEventType } from '../../shared/contract/event.ts';
import type { RunRequestInput } from '../../shared/contract/run.ts';
import {
  isBorder,
  isCapability,
  isGovernance,
  isMachinery,
  isTeamwork,
  isToolDetail,
} from '../../shared/dialects/dialect.ts';
import { chatCompletionOf, chatIdOf, chatUsageOf, errorOf, finishReasonOf, modelOf, secondsOf } from './answer.ts';
import { endedBy } from './response-events.ts';

/** Which completion is streamed. */
export interface ChatStream {
  readonly runId: string;
  readonly createdAt: string;
  readonly request: RunRequestInput;
  /** A last chunk has the usage. */
  readonly withUsage: boolean;
}

/**
 * Translates the events of a run, from the first one on, into the chunks of a chat completion. Text that was sent cannot be taken
 * back: when a step is made again and says something else, and when the run ends without an answer, it throws an error that names
 * the run.
 */
export class ChatProjection {
  readonly #stream: ChatStream;
  #begun = false;
  /** What was sent of this step. */
  #sent = '';
  /** Of a step that is made again: what was sent of it before, and what of that has been said again. */
  #repeated: { readonly sent: string; again: string } | undefined;
  /** The text of the last step that said something. */
  #spoken = '';

  constructor(stream: ChatStream) {
    this.#stream = stream;
  }

  /** What becomes of the next event of the log. */
  next(event: RunEvent): readonly object[] {
    if (event.type === 'step.end') return this.#settle();
    if (isMachinery(event) || isTeamwork(event) || isBorder(event)) return [];
    if (isCapability(event) || isToolDetail(event) || isGovernance(event)) return [];
    switch (event.type) {
      case 'run.started':
        return this.#start();
      case 'text.delta':
        return this.#say(event.delta);
      case 'step.reset':
        this.#repeated = this.#sent === '' ? undefined : { sent: this.#sent, again: '' };
        return [];
      case 'run.completed':
      case 'run.failed':
      case 'run.cancelled':
        return this.#finish(event);
      case 'step.start':
      case 'text.complete':
      case 'reasoning.delta':
      case 'tool.execute.start':
      case 'tool.execute.end':
      case 'tool.execute.error':
      case 'agent.thinking':
      case 'agent.response':
      case 'agent.model.fellback':
      case 'tool.approval.requested':
      case 'llm.call':
      case 'cost.updated':
        return [];
      default:
        return assertNever(event);
    }
  }

  #head() {
    const { runId, createdAt, request } = this.#stream;
    const created = secondsOf(createdAt);
    return { id: chatIdOf(runId), object: 'chat.completion.chunk', created, model: modelOf(request) };
  }

  #chunk(delta: object, finishReason: string | null = null): object {
    const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }];
    return { ...this.#head(), choices, ...(this.#stream.withUsage && { usage: null }) };
  }

  #start(): readonly object[] {
    if (this.#begun) return [];
    this.#begun = true;
    return [this.#chunk({ role: 'assistant', content: '' })];
  }

  #say(delta: string): readonly object[] {
    const fresh = this.#unsaid(delta);
    if (fresh === '') return [];
    const separator = this.#sent === '' && this.#spoken !== '' ? '\n\n' : '';
    this.#sent += fresh;
    return [...this.#start(), this.#chunk({ content: separator + fresh })];
  }

  /** What of a delta was not sent before its step was made again. */
  #unsaid(delta: string): string {
    if (!this.#repeated) return delta;
    const { sent } = this.#repeated;
    this.#repeated.again += delta;
    const { again } = this.#repeated;
    if (sent.startsWith(again)) return '';
    if (!again.startsWith(sent)) throw saysOtherwise(this.#stream.runId);
    this.#repeated = undefined;
    return again.slice(sent.length);
  }

  #settle(): readonly object[] {
    const { sent = '', again = '' } = this.#repeated ?? {};
    if (sent !== again) throw saysOtherwise(this.#stream.runId);
    this.#repeated = undefined;
    if (this.#sent !== '') this.#spoken = this.#sent;
    this.#sent = '';
    return [];
  }

  #finish(event: EventOf<TerminalEventType>): readonly object[] {
    const run = endedBy(event, this.#stream.createdAt);
    const error = errorOf(run);
    if (error) throw error;
    this.#settle();
    const text = run.result?.text ?? '';
    // An answer that no model streamed: of an orchestration, or in the place of one.
    const rest = [...this.#start(), ...(text === this.#spoken ? [] : this.#say(text))];
    const { millrace } = chatCompletionOf(run, this.#stream.request);
    const last = { ...this.#chunk({}, finishReasonOf(run)), millrace };
    const total = { ...this.#head(), choices: [], usage: chatUsageOf(run.usage) };
    return [...rest, last, ...(this.#stream.withUsage ? [total] : [])];
  }
}

function saysOtherwise(runId: string): RunError {
  const where = `GET /v1/responses/resp_${runId} has the whole answer`;
  return new RunError('provider_unavailable', `a step was made again and says something else now; ${where}`, {
    details: { runId },
  });
}
