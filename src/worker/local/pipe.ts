import { RunError } from '../../shared/base/errors.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { RunOutcomeView } from '../../shared/contract/run.ts';
import { untilAborted } from '../llm/watchdog.ts';
import { clip } from '../../shared/base/text.ts';

/**
 * The text of a run as it comes, from its events. Reads on only when the next piece is asked for. Throws as the run failed,
 * `cancelled`, `internal` where the events end before the run does, and `provider_unavailable` where a step is made again
 * after some of its text was handed on, because that cannot be taken back.
 */
export async function* textFrom(events: AsyncIterable<RunEvent>): AsyncGenerator<string, void> {
  let isShown = false;
  for await (const event of events) {
    if (event.type === 'run.completed') return;
    refuse(event, isShown);
    if (event.type === 'text.complete') isShown = false;
    if (event.type !== 'text.delta') continue;
    isShown = true;
    yield event.delta;
  }
  throw new RunError('internal', 'the run whose text is read waits, or its events ended early');
}

function refuse(event: RunEvent, isShown: boolean): void {
  if (event.type === 'run.failed') throw new RunError(event.error.code, event.error.message);
  if (event.type === 'run.cancelled') throw new RunError('cancelled', 'the run whose text is read was cancelled');
  if (event.type === 'step.reset' && isShown)
    throw new RunError('provider_unavailable', 'a step was made again after its text was read');
}

/**
 * The text in pieces of whole paragraphs, together at most `maxChars` UTF-16 units; only a paragraph that is longer is cut,
 * where possible after a word. Buffers at most one piece and what came with its end.
 */
export async function* inPieces(text: AsyncIterable<string>, maxChars: number): AsyncGenerator<string, void> {
  let rest = '';
  for await (const more of text) {
    rest += more;
    while (rest.length > maxChars) {
      const piece = pieceOf(rest, maxChars);
      rest = rest.slice(piece.length);
      if (piece.trim() !== '') yield piece.trim();
    }
  }
  if (rest.trim() !== '') yield rest.trim();
}

function pieceOf(text: string, maxChars: number): string {
  const most = clip(text, maxChars);
  const paragraph = most.lastIndexOf('\n\n');
  if (paragraph > 0) return most.slice(0, paragraph + 2);
  const word = most.search(/\s\S*$/);
  return word > 0 ? most.slice(0, word + 1) : most;
}

/** What reads the pieces: an `AgentHandle`, or anything that runs one input. */
export interface PieceReader {
  run(input: string, options: { readonly signal: AbortSignal }): Promise<RunOutcomeView>;
}

export interface PipeOptions {
  /** UTF-16 units of one piece: 64 to 100,000, default 4,000. */
  readonly pieceChars?: number;
  /** Makes the input of the reader from a piece. Default: the piece itself. */
  readonly prompt?: (piece: string, index: number) => string;
  /** Cancels the reader and ends the pipe with `cancelled`; the run that is read has a signal of its own. */
  readonly signal?: AbortSignal;
}

/** A piece and the reader's answer to it. Its run may have failed, see `status`. */
export interface Piped {
  readonly index: number;
  readonly piece: string;
  readonly outcome: RunOutcomeView;
}

/**
 * Gives the text of one run, piece by piece and while it comes, to another agent. One piece at a time, and only as fast as
 * the pipe is read: nothing is read ahead of it, so a subscription that falls behind uses its log. Throws
 * `invalid_config`, and as {@link textFrom} does.
 */
export async function* pipe(
  events: AsyncIterable<RunEvent>,
  reader: PieceReader,
  { pieceChars = 4_000, prompt = (piece) => piece, signal = new AbortController().signal }: PipeOptions = {},
): AsyncGenerator<Piped, void> {
  if (!Number.isInteger(pieceChars) || pieceChars < 64 || pieceChars > 100_000)
    throw new RunError('invalid_config', 'pipe: pieceChars must be a whole number from 64 to 100000');
  let index = 0;
  try {
    for await (const piece of inPieces(textFrom(untilAborted(events, signal)), pieceChars)) {
      const outcome = await reader.run(prompt(piece, index), { signal });
      yield { index, piece, outcome };
      index++;
    }
  } catch (error) {
    throw signal.aborted ? new RunError('cancelled', 'the pipe was cancelled', { cause: error }) : error;
  }
}
