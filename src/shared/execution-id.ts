import { z } from 'zod';
import { RunError } from './errors.ts';
import { publicId, sha256 } from './ids.ts';

const component = z
  .string()
  .min(1)
  .refine((text) => text.isWellFormed(), 'must be well-formed Unicode');

const turnOfSession = z.object({ projectId: component, sessionId: component, turnIndex: z.int().min(0) });

/** One turn of a conversation, by the names that the caller's product has for it. */
export type TurnOfSession = Readonly<z.infer<typeof turnOfSession>>;

const maxChars = 128;

/**
 * The execution id of a turn: `project:session:turn`. The same turn always has the same id and another turn another one,
 * also when names hold colons or other characters that ids must not have: those become `::` and two hex digits for each
 * byte. What gets longer than 128 characters keeps its beginning and ends in `:h` and a SHA-256. Throws `validation` for
 * an empty name and for an index that is not a whole number from 0.
 *
 * @example
 * const run = await mill.enqueue({ agent, input, executionId: deriveExecutionId({ projectId, sessionId, turnIndex }) });
 */
export function deriveExecutionId(turn: TurnOfSession): string {
  const parsed = turnOfSession.safeParse(turn);
  if (!parsed.success) throw invalidTurn(parsed.error.issues);
  const { projectId, sessionId, turnIndex } = parsed.data;
  const id = `${escaped(projectId)}:${escaped(sessionId)}:${turnIndex}`;
  return publicId.parse(id.length <= maxChars ? id : shortened(id));
}

/** No name is empty, so that two colons never stand for two borders. */
function escaped(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9._-]+/g, (part) =>
    [...Buffer.from(part)].map((byte) => `::${byte.toString(16).padStart(2, '0')}`).join(''),
  );
}

/** Whole ids end in a number, so that none of them looks like this. */
function shortened(id: string): string {
  const end = `:h${sha256(id)}`;
  return id.slice(0, maxChars - end.length) + end;
}

function invalidTurn(issues: readonly z.core.$ZodIssue[]): RunError {
  const problems = issues.map(({ path, message }) => ({ path: path.join('.'), message }));
  const list = problems.map(({ path, message }) => (path ? `${path}: ${message}` : message));
  return new RunError('validation', `no execution id: ${list.join('; ')}`, { details: problems });
}
