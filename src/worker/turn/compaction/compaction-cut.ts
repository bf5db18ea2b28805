import type { Message } from '../../../shared/contract/message.ts';
import { isSummary } from '../../../shared/contract/thread/summary-message.ts';

/**
 * Where the part of a conversation begins that stays word by word: at the question of the turn `keep` turns before the
 * end, or, where there are not more turns or what would stay does not fit, at the answer of the step `keep` steps before
 * the end. Never between a call and its result. Undefined: there is nothing before it that is not a summary already.
 */
export function cutOf(messages: readonly Message[], keep: number, fits: (from: number) => boolean): number | undefined {
  const turns = placesOf(messages, 'user');
  const byTurn = turns.length > keep ? turns.at(-keep) : undefined;
  if (byTurn !== undefined && fits(byTurn)) return byTurn;
  const steps = placesOf(messages, 'assistant');
  const byStep = steps.length > keep ? steps.at(-keep) : undefined;
  if (byTurn === undefined || byStep === undefined) return byTurn ?? byStep;
  return Math.max(byTurn, byStep);
}

/** Where a part may end that is summarised by itself. In order; the last one is `cut`. */
export function partEnds(messages: readonly Message[], cut: number): number[] {
  const isEnd = (at: number) => at === cut || messages[at]?.role !== 'tool';
  return Array.from({ length: cut - bodyStart(messages) }, (_, index) => bodyStart(messages) + index + 1).filter(isEnd);
}

/** The place behind the summary, if there is one. */
export function bodyStart([first]: readonly Message[]): 0 | 1 {
  return isSummary(first) ? 1 : 0;
}

/** Beginnings of turns, or of steps, that have something before them to summarise. */
function placesOf(messages: readonly Message[], role: 'user' | 'assistant'): number[] {
  const start = bodyStart(messages);
  return messages.flatMap((message, at) => (at >= start && message.role === role ? [at] : []));
}
