import { secretForms, withheldMark } from '../../shared/base/redact.ts';

const maxDepth = 64;

/** The same list is asked about for as long as its owner lives: its forms are made once. */
const formsOf = new WeakMap<readonly string[], readonly string[]>();

/**
 * Does a JSON value contain one of these secrets in any text, names of fields included? Also URL-encoded, also in every
 * character, in base64 and JSON-escaped. Values
 * under 6 characters are not looked for. What is nested deeper than 64 levels counts as one that does. Never throws.
 */
export function carriesSecret(value: unknown, secrets: readonly string[]): boolean {
  if (secrets.length === 0) return false;
  let forms = formsOf.get(secrets);
  if (!forms) {
    forms = secretForms(secrets);
    formsOf.set(secrets, forms);
  }
  return forms.length > 0 && carries(value, forms, 0);
}

/** Did a secret stand in one of these texts, as a model wrote them? */
export function hadSecret(value: unknown): boolean {
  return carries(value, [withheldMark], 0);
}

function carries(value: unknown, forms: readonly string[], depth: number): boolean {
  if (typeof value === 'string') return containsAny(value, forms);
  if (typeof value === 'number' || typeof value === 'bigint') return containsAny(String(value), forms);
  if (value === null || typeof value !== 'object') return false;
  if (depth > maxDepth) return true;
  if (Array.isArray(value)) return value.some((item) => carries(item, forms, depth + 1));
  return Object.entries(value).some(([name, item]) => containsAny(name, forms) || carries(item, forms, depth + 1));
}

function containsAny(text: string, forms: readonly string[]): boolean {
  if (forms.some((form) => text.includes(form))) return true;
  const decoded = text.includes('%') ? urlDecoded(text) : text;
  return decoded !== text && forms.some((form) => decoded.includes(form));
}

/** Every escape that is one, the others as they stand. Escapes of single bytes are enough: the forms cover the longer ones. */
function urlDecoded(text: string): string {
  return text.replaceAll(/(?:%[0-9A-Fa-f]{2}){1,512}/g, (escapes) =>
    Buffer.from(escapes.replaceAll('%', ''), 'hex').toString('utf8'),
  );
}
