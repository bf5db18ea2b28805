import type { z } from 'zod';
import { RunError } from './errors.ts';
import { cutText } from './redact.ts';
import { wordsOf } from './issue-words.ts';

/** What was wrong at one path of an input. */
interface Problem {
  readonly path: string;
  readonly message: string;
}

type Issues = Pick<z.ZodError, 'issues'> | undefined;
type Schema = z.core.$ZodType;
type InvalidCode = 'validation' | 'invalid_id';

/**
 * A line for each problem of a parse, `path: message`. `whole` names the input where it is wrong as a whole; `named` gives the
 * path by which the caller knows a field. With the schema a name that is close to an unknown field is suggested.
 */
export function problemsOf(error: Issues, whole: string, named = (path: string) => path, schema?: Schema): string[] {
  return wordsOf(error?.issues ?? [], schema).map(({ path, message }) => `${named(dotted(path)) || whole}: ${message}`);
}

/** The same for an input that is part of a larger one, at `place`. */
export function problemsAt(error: Issues, place: PropertyKey): string[] {
  return wordsOf(error?.issues ?? []).map(({ path, message }) => `${dotted([place, ...path])}: ${message}`);
}

/** The first place that is wrong and the kind of mistake, never what stands there: for states with texts of users and models. */
export function firstProblemOf({ issues: [issue] }: z.ZodError): string {
  return issue ? `${dotted(issue.path) || 'the whole'}: ${issue.code}` : 'no reason';
}

/** What an error says about an input with thousands of problems: enough of them to see what is wrong. */
const maxProblems = 50;
const maxProblemBytes = 256;

/** An error for the caller, with the problems of a parse in its details: the first 50 of them, each cut to 256 bytes. */
export function invalid(code: InvalidCode, what: string, { issues }: z.ZodError, schema?: Schema): RunError {
  const found = wordsOf(issues.slice(0, maxProblems), schema).slice(0, maxProblems);
  const problems = found.map(({ path, message }): Problem => {
    return { path: cutText(dotted(path), maxProblemBytes), message: cutText(message, maxProblemBytes) };
  });
  const list = problems.slice(0, 5).map(({ path, message }) => (path ? `${path}: ${message}` : message));
  return new RunError(code, `${what}: ${list.join('; ')}`, { details: problems });
}

/** The input as its schema reads it. Throws {@link invalid} for any other. */
export function parseAs<T extends z.ZodType>(
  schema: T,
  input: unknown,
  what: string,
  code: InvalidCode = 'validation',
): z.output<T> {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw invalid(code, what, parsed.error, schema);
}

function dotted(path: readonly PropertyKey[]): string {
  return path.map(String).join('.');
}
