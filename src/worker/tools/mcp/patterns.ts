import { RE2JS } from 're2js';

const maxPatternChars = 1_000;

/**
 * Runs the patterns of schemas that strangers wrote, in time that grows with the text and not with the pattern's tricks.
 * Of the shape that Ajv asks for.
 */
export const linearRegExp = Object.assign(
  (pattern: string): { test(text: string): boolean } => {
    const compiled = RE2JS.compile(pattern);
    return { test: (text) => compiled.matcher(text).find() };
  },
  { code: 'linearRegExp' },
);

/** Can this pattern be run? */
export function acceptsPattern(pattern: unknown): boolean {
  if (typeof pattern !== 'string' || pattern.length > maxPatternChars) return false;
  try {
    linearRegExp(pattern);
    return true;
  } catch {
    return false;
  }
}
