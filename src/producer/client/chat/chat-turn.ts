import { RunError } from '../../../shared/base/errors.ts';
import type { RunOutcomeView } from '../../../shared/contract/run.ts';
import type { ResultOptions } from '../options.ts';
import { chatLines, type ChatLine, type ChatLinesOptions, type TurnReads } from './chat-lines.ts';
import type { ChatTurnProducer } from '../../chat/hooks.ts';
import type { OpenTurn } from './open-turn.ts';
import { failure } from '../../chat/run-producer.ts';

/** What a turn asks of its client. */
interface TurnOperations extends TurnReads {
  result(runId: string, options?: ResultOptions): Promise<RunOutcomeView>;
}

/** One turn of a chat, on a worker. Needs no closing. */
export class ChatTurn {
  readonly runId: string;
  /** With it any producer and any client of the tenant finds the turn again. */
  readonly executionId: string;
  /** The turn had a run already. */
  readonly attached: boolean;
  /** Its run had even ended. */
  readonly replayed: boolean;
  readonly #turn: OpenTurn;
  readonly #operations: TurnOperations;

  constructor(operations: TurnOperations, turn: OpenTurn) {
    this.#operations = operations;
    this.#turn = turn;
    this.runId = turn.runId;
    this.executionId = turn.executionId;
    this.attached = turn.attached;
    this.replayed = turn.replayed;
  }

  /**
   * The lines of the turn, from `session.run.started` to `session.run.completed` or `session.run.failed`; resumed with
   * `after`, those that follow. Survives reconnects without gap or repeat. When the events are gone and the result is
   * there, it is replayed from a new `session.run.started` on. Throws as `Millrace.events`; `replay_truncated` only while
   * the run goes on.
   */
  events(options: ChatLinesOptions = {}): AsyncIterableIterator<ChatLine> {
    return chatLines(this.#turn, options, this.#operations);
  }

  /** The text of the answer, once there is one. Throws the error that the run ended with, and `cancelled`. */
  async text(options: Omit<ResultOptions, 'waitMs'> = {}): Promise<string> {
    const { status, text, error } = await this.#operations.result(this.runId, options);
    if (error) throw failure(error);
    if (status === 'cancelled') throw new RunError('cancelled', 'the turn was cancelled');
    return text;
  }

  /** The turn as `handleChatTurn` takes it: without the envelope, and failing when the run fails. */
  producer(): ChatTurnProducer {
    return { stream: this.#body(), finalText: () => this.text() };
  }

  async *#body(): AsyncGenerator<ChatLine, void, undefined> {
    for await (const line of this.events()) {
      if (line.type === 'session.run.failed') await this.text();
      // The error is thrown, and the handler that catches it writes it.
      if (!line.type.startsWith('session.run.') && line.type !== 'error') yield line;
    }
  }
}
