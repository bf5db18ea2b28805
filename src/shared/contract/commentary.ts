import { z } from 'zod';

/**
 * What becomes of a text that a model writes beside its tool calls, where it leaves the run: in events, threads and exports.
 * `pass`: nothing. `wrap`: it stands between marks. `strip`: it is left out.
 */
export const commentaryMode = z.enum(['pass', 'wrap', 'strip']);
export type CommentaryMode = z.infer<typeof commentaryMode>;

const begin = '<commentary>';
const end = '</commentary>';
const marks = /<(\/?)commentary>/gi;

/** The text as it leaves the run. A mark within it cannot end it early. */
export function shownCommentary(text: string, mode: CommentaryMode): string {
  if (mode === 'pass' || text === '') return text;
  return mode === 'strip' ? '' : `${begin}\n${text.replaceAll(marks, '‹$1commentary›')}\n${end}`;
}
