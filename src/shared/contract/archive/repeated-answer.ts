import { RunError } from '../../base/errors.ts';
import { lineKinds } from './line-kinds.ts';

/** No JSON has it. */
const mark = '\u0001';
/** A shorter answer is not worth it. */
const minChars = 64;
/** More than the lines of any run have. */
const maxChars = 64 * 1024 * 1024;
const resultStart = `\n${lineKinds.field}result {"text":`;

/**
 * The lines of a run with its answer only once: the result has it, and the journal and the events have it up to five times more. A mark
 * stands for it there. To search and to compress them takes half of the time.
 */
export function withAnswerOnce(lines: string): string {
  const { answer, end } = answerIn(lines);
  if (answer.length < minChars) return lines;
  return lines.slice(0, end) + lines.slice(end).replaceAll(answer, mark);
}

/** The lines as they were. Throws `run_state_malformed` for what no `withAnswerOnce` has made. */
export function withAnswerEverywhere(lines: string): string {
  const parts = lines.split(mark);
  if (parts.length === 1) return lines;
  const { answer } = answerIn(lines);
  if (answer === '' || lines.length + parts.length * answer.length > maxChars)
    throw new RunError('run_state_malformed', 'the repeated answer of an archived run cannot be restored');
  return parts.join(answer);
}

/** The answer in the result of a run, as JSON, and where it ends; empty: there is none. */
function answerIn(lines: string): { readonly answer: string; readonly end: number } {
  const found = lines.indexOf(resultStart);
  const from = found + resultStart.length;
  if (found === -1 || lines[from] !== '"') return { answer: '', end: 0 };
  let end = lines.indexOf('"', from + 1);
  while (end !== -1 && isEscaped(lines, end)) end = lines.indexOf('"', end + 1);
  return end === -1 ? { answer: '', end: 0 } : { answer: lines.slice(from, end + 1), end: end + 1 };
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === '\\') first -= 1;
  return (at - first) % 2 === 1;
}
