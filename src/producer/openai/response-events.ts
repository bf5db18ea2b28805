import { assertNever } from '../../shared/base/errors.ts';
import { jsonText } from '../../shared/base/json.ts';
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
import { messageIdOf, messageItem, responseOf, textPart, type AnsweredRun } from './answer.ts';

/** An event of a streamed response. Numbers count from 0 without gaps. */
export interface ResponseEvent {
  readonly type: string;
  readonly sequence_number: number;
  readonly [field: string]: unknown;
}

/** What is being said: the thoughts or the text of a step, as an item of the output. */
interface OpenItem {
  readonly kind: 'message' | 'reasoning';
  readonly id: string;
  readonly index: number;
  text: string;
}

interface OpenCall {
  readonly index: number;
  readonly item: { readonly id: string; readonly [field: string]: unknown };
}

/**
 * Translates the events of a run into those of a streamed response. It must see every event of the log from the first one on, each
 * once: the same log always gives the same events with the same numbers, on every producer.
 */
export class ResponseProjection {
  readonly #request: RunRequestInput;
  readonly #calls = new Map<string, OpenCall>();
  #emitted: ResponseEvent[] = [];
  #sequence = 0;
  #items = 0;
  #step = 1;
  #open: OpenItem | undefined;
  /** The last text that was said to its end. */
  #spoken = '';
  #createdAt = new Date(0).toISOString();

  constructor(request: RunRequestInput) {
    this.#request = request;
  }

  /** What becomes of the next event of the log. */
  next(event: RunEvent): readonly ResponseEvent[] {
    this.#emitted = [];
    this.#project(event);
    return this.#emitted;
  }

  /** The last event alone, of a log that is gone. */
  last(end: RunEvent, createdAt: string): readonly ResponseEvent[] {
    this.#createdAt = createdAt;
    return this.next(end).slice(-1);
  }

  #project(event: RunEvent): void {
    if (event.type === 'run.queued') return this.#begin(event);
    if (isMachinery(event) || isTeamwork(event) || isBorder(event)) return;
    if (isCapability(event) || isToolDetail(event) || isGovernance(event)) return;
    switch (event.type) {
      case 'run.started':
        if (!event.resumed) this.#emit('response.in_progress', { response: this.#frame(event.runId, 'running') });
        return;
      case 'step.start':
        this.#close('completed');
        this.#step = event.stepNumber;
        return;
      case 'reasoning.delta':
        return this.#say(this.#openItem('reasoning', event.runId), event.delta);
      case 'text.delta':
        return this.#say(this.#openItem('message', event.runId), event.delta);
      case 'text.complete':
        return this.#complete(event);
      case 'step.reset':
        return this.#close('incomplete');
      case 'tool.execute.start':
        return this.#startCall(event);
      case 'tool.execute.end':
        return this.#endCall(event.toolCallId, { output: event.outputSummary });
      case 'tool.execute.error':
        return this.#endCall(event.toolCallId, { error: event.error.message });
      case 'run.completed':
      case 'run.failed':
      case 'run.cancelled':
        return this.#finish(event);
      case 'agent.thinking':
      case 'agent.response':
      case 'agent.model.fellback':
      case 'tool.approval.requested':
      case 'llm.call':
      case 'cost.updated':
        return;
      default:
        return assertNever(event);
    }
  }

  #emit(type: string, fields: object): void {
    this.#emitted.push({ type, sequence_number: this.#sequence++, ...fields });
  }

  #frame(runId: string, status: 'queued' | 'running'): object {
    return responseOf({ runId, status, costMicrocents: 0, steps: 0, createdAt: this.#createdAt }, this.#request);
  }

  #begin({ runId, queuedAt }: EventOf<'run.queued'>): void {
    this.#createdAt = queuedAt;
    this.#emit('response.created', { response: this.#frame(runId, 'queued') });
    this.#emit('response.queued', { response: this.#frame(runId, 'queued') });
  }

  #openItem(kind: OpenItem['kind'], runId: string): OpenItem {
    if (this.#open?.kind === kind) return this.#open;
    this.#close('completed');
    const index = this.#items++;
    const id = kind === 'message' ? messageIdOf(runId, this.#step) : `rs_${runId}_${this.#step}_${index}`;
    const item = { kind, id, index, text: '' };
    const at = { item_id: id, output_index: index };
    if (kind === 'message') {
      this.#emit('response.output_item.added', { output_index: index, item: messageItem(id, '', 'in_progress') });
      this.#emit('response.content_part.added', { ...at, content_index: 0, part: textPart('') });
    } else {
      this.#emit('response.output_item.added', { output_index: index, item: { id, type: 'reasoning', summary: [] } });
      this.#emit('response.reasoning_summary_part.added', { ...at, summary_index: 0, part: summaryPart('') });
    }
    this.#open = item;
    return item;
  }

  #say(item: OpenItem, delta: string): void {
    item.text += delta;
    const at = { item_id: item.id, output_index: item.index, delta };
    if (item.kind === 'message') this.#emit('response.output_text.delta', { ...at, content_index: 0, logprobs: [] });
    else this.#emit('response.reasoning_summary_text.delta', { ...at, summary_index: 0 });
  }

  #complete({ runId, text }: EventOf<'text.complete'>): void {
    if (this.#open?.kind !== 'message' && text === '') return;
    const item = this.#openItem('message', runId);
    if (item.text === '') this.#say(item, text);
    item.text = text;
    this.#close('completed');
  }

  #close(status: 'completed' | 'incomplete'): void {
    if (!this.#open) return;
    const { kind, id, index, text } = this.#open;
    this.#open = undefined;
    const at = { item_id: id, output_index: index };
    if (kind === 'message') {
      if (status === 'completed') this.#spoken = text;
      this.#emit('response.output_text.done', { ...at, content_index: 0, text, logprobs: [] });
      this.#emit('response.content_part.done', { ...at, content_index: 0, part: textPart(text) });
      this.#emit('response.output_item.done', { output_index: index, item: messageItem(id, text, status) });
      return;
    }
    const item = { id, type: 'reasoning', summary: [summaryPart(text)], status };
    this.#emit('response.reasoning_summary_text.done', { ...at, summary_index: 0, text });
    this.#emit('response.reasoning_summary_part.done', { ...at, summary_index: 0, part: summaryPart(text) });
    this.#emit('response.output_item.done', { output_index: index, item });
  }

  /** A call of the agent's own, as one that its client need not answer. */
  #startCall({ toolCallId, toolName: name, args, parentToolCallId }: EventOf<'tool.execute.start'>): void {
    if (parentToolCallId !== undefined) return;
    this.#close('completed');
    const index = this.#items++;
    const id = `mcp_${toolCallId}`;
    const item = { id, type: 'mcp_call', server_label: 'millrace', name, arguments: jsonText(args) };
    this.#calls.set(toolCallId, { index, item });
    this.#emit('response.output_item.added', { output_index: index, item: { ...item, status: 'in_progress' } });
    this.#emit('response.mcp_call.in_progress', { item_id: id, output_index: index });
  }

  #endCall(toolCallId: string, end: { readonly output: string } | { readonly error: string }): void {
    const call = this.#calls.get(toolCallId);
    if (!call) return;
    this.#calls.delete(toolCallId);
    const { index, item } = call;
    const status = 'output' in end ? 'completed' : 'failed';
    this.#emit(`response.mcp_call.${status}`, { item_id: item.id, output_index: index });
    this.#emit('response.output_item.done', { output_index: index, item: { ...item, status, ...end } });
  }

  #finish(event: EventOf<TerminalEventType>): void {
    const run = endedBy(event, this.#createdAt);
    this.#close(event.type === 'run.completed' ? 'completed' : 'incomplete');
    const text = run.result?.text ?? '';
    // An answer that no model streamed: of an orchestration, or in the place of one.
    if (text !== this.#spoken && text !== '') {
      this.#step = run.steps;
      this.#say(this.#openItem('message', event.runId), text);
      this.#close('completed');
    }
    const response = responseOf(run, this.#request);
    const { status } = response;
    this.#emit(`response.${status === 'completed' || status === 'incomplete' ? status : 'failed'}`, { response });
  }
}

function summaryPart(text: string): object {
  return { type: 'summary_text', text };
}

/** The run as the event that ended it says. */
export function endedBy(event: EventOf<TerminalEventType>, createdAt: string): AnsweredRun {
  const { runId, usage, costMicrocents, timestamp: endedAt } = event;
  const run = { runId, usage, costMicrocents, createdAt, endedAt };
  switch (event.type) {
    case 'run.completed':
      return { ...run, status: event.status, result: event.result, steps: event.steps };
    case 'run.failed':
      return { ...run, status: 'failed', error: event.error, steps: 0 };
    case 'run.cancelled':
      return { ...run, status: 'cancelled', steps: 0 };
    default:
      return assertNever(event);
  }
}
