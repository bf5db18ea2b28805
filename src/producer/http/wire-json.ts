import { jsonText } from '../../shared/base/json.ts';

/** What JSON lets through as it is, and what some readers of lines, terminals or scripts take for a sign of their own. */
const signs = /[\u007F-\u009F\u2028\u2029]/g;

/** JSON as it leaves over HTTP: on one line for every reader, with no control character in it. The value is the same. */
export function wireJson(value: unknown): string {
  const text = jsonText(value) as string | undefined;
  if (text === undefined || text.search(signs) === -1) return text as string;
  return text.replaceAll(signs, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
