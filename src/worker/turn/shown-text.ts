import { shownCommentary, type CommentaryMode } from '../../shared/contract/commentary.ts';
import type { LeakFinding } from '../../shared/contract/agent/lateral-leak.ts';
import { toolCallsOf, textOf, type AssistantMessage } from '../../shared/contract/message.ts';
import { RunError } from '../../shared/base/errors.ts';
import { guardProtocol, neutralised, NeutralisedPieces, rejected } from '../guards/leaks/protocol.ts';
import type { TurnState } from '../../shared/contract/journal/fold.ts';
import { leakEvent } from '../tools/leak-event.ts';
import type { TextRule, Turn } from './turn-ports.ts';

/**
 * The text of a model call on its way to subscribers. Without a rule each piece goes at once. Where commentary is not shown as it
 * is, and there are tools to call, nothing goes before the answer is complete: only then it is known what the text is.
 */
export class ShownText {
  readonly #turn: Turn;
  readonly #isHeld: boolean;
  #pieces: NeutralisedPieces | undefined;
  #thoughts: NeutralisedPieces | undefined;
  #held = '';
  #model = '';

  constructor(turn: Turn, hasTools: boolean) {
    this.#turn = turn;
    this.#isHeld = turn.spec.commentary !== undefined && hasTools;
    this.reset();
  }

  /** Forgets what came: the model call is made again. */
  reset(): void {
    const { protocol } = this.#turn.spec;
    this.#pieces = protocol && new NeutralisedPieces(protocol);
    this.#thoughts = protocol && new NeutralisedPieces(protocol);
    this.#held = '';
    this.#turn.shownText = '';
  }

  push(delta: string, model: string): void {
    this.#model = model;
    const text = this.#pieces ? this.#pieces.push(delta) : delta;
    if (this.#isHeld) this.#held += text;
    else this.#show(text);
  }

  think(delta: string, model: string): void {
    const text = this.#thoughts ? this.#thoughts.push(delta) : delta;
    if (text !== '') this.#turn.deps.emit({ type: 'reasoning.delta', delta: text, model });
  }

  /** The answer is complete: shows what was kept back of it. */
  end(message: AssistantMessage): void {
    const rest = this.#held + (this.#pieces?.end() ?? '');
    this.#held = '';
    if (rest === '') return;
    this.#show(this.#isHeld ? shownCommentary(rest, modeOf(message)) : rest);
  }

  #show(text: string): void {
    if (text === '') return;
    this.#turn.shownText += text;
    this.#turn.deps.emit({ type: 'text.delta', delta: text, model: this.#model });
  }
}

function modeOf({ commentary }: AssistantMessage): CommentaryMode {
  return commentary ?? 'pass';
}

/** An answer as it is kept: without control characters, and marked where its text is commentary that does not leave the run as it is. */
export function keptAnswer(message: AssistantMessage, { commentary, protocol }: TextRule): AssistantMessage {
  const isCommentary = commentary !== undefined && toolCallsOf(message).length > 0 && textOf(message) !== '';
  const parts = protocol
    ? message.parts.map((part) => (part.type === 'text' ? { ...part, text: neutralised(part.text, protocol) } : part))
    : message.parts;
  return { ...message, parts, ...(isCommentary && { commentary }) };
}

/** The finding in an answer with control characters, where they do not stay. */
export function protocolFinding(message: AssistantMessage, { protocol }: TextRule): LeakFinding | undefined {
  return protocol && guardProtocol(textOf(message), protocol).leak;
}

/** Why an answer is refused for its control characters. Emits the finding. */
export function protocolFault(
  message: AssistantMessage,
  { spec, deps }: Pick<Turn, 'spec' | 'deps'>,
): RunError | undefined {
  const leak = spec.protocol === 'reject' ? protocolFinding(message, spec) : undefined;
  if (!leak) return undefined;
  deps.emit(leakEvent(leak));
  return new RunError('protocol_injection_rejected', `the answer of the model was refused: ${rejected}`);
}

/** The last text of the model as it leaves the run. */
export function lastShown({ answer, calls }: Pick<TurnState, 'answer' | 'calls'>, { commentary }: TextRule): string {
  return shownCommentary(answer?.text ?? '', calls.length > 0 ? (commentary ?? 'pass') : 'pass');
}
