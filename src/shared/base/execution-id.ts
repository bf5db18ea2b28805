import { invalid } from './problems.ts';
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
  if (!parsed.success) throw invalid('validation', 'no execution id', parsed.error);
  const { projectId, sessionId, turnIndex } = parsed.data;
  const id = `${escaped(projectId)}:${escaped(sessionId)}:${turnIndex}`;
  return publicId.parse(id.length <= maxChars ? id : shortened(id, ':h'));
}

/** A conversation, by the names that the caller's product has for it. Without a project: that of the tenant itself. */
export interface Session {
  readonly projectId?: string | undefined;
  readonly sessionId: string;
}

/**
 * The thread of a session: `session`, or `project:session`, in the letters of {@link deriveExecutionId}. Different
 * sessions never share one. Throws `validation` for an empty name.
 *
 * @example
 * const { messages } = await mill.threads.messages(deriveThreadId({ projectId: 'shop', sessionId: 's-1' }));
 */
export function deriveThreadId({ projectId, sessionId }: Session): string {
  const parsed = z.array(component).safeParse([...(projectId === undefined ? [] : [projectId]), sessionId]);
  if (!parsed.success) throw new RunError('validation', 'no thread id: names of projects and sessions are not empty');
  const id = parsed.data.map(escaped).join(':');
  return publicId.parse(id.length <= maxChars ? id : shortened(id, '::h'));
}

/** No name is empty, so that two colons never stand for two borders. */
function escaped(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9._-]+/g, (part) =>
    [...Buffer.from(part)].map((byte) => `::${byte.toString(16).padStart(2, '0')}`).join(''),
  );
}

/** Whole ids of turns end in a number, and two colons are never followed by an `h`: no whole id looks like this. */
function shortened(id: string, mark: ':h' | '::h'): string {
  const end = `${mark}${sha256(id)}`;
  return id.slice(0, maxChars - end.length) + end;
}
