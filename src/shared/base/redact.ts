import { jsonText } from './json.ts';
import { SecretForms, SecretStream } from './secret-stream.ts';

export type { SecretStream } from './secret-stream.ts';

const mark = '[redacted]';

/** Stands for a secret in the arguments of a call that a model has written: such a call is refused. */
export const withheldMark = '[redacted: a secret]';

const secretName = new RegExp(
  `(^|_)(${[
    '(api|access|secret|private|signing|encryption|service_account|subscription)_?keys?',
    '(access|refresh|auth|bearer|api|id|session|security)_?token',
    '(api|app|client|shared|consumer|webhook)_?secret',
    'secret(_access_key)?',
    'password|passwd|passphrase|authorization|credentials?',
  ].join('|')})$|^(bearer|(set_)?cookie)$`,
);

/** Does a field with this name hold a credential? Also with more before it: `openaiApiKey`, `db_password`. */
export function isSecretName(name: string): boolean {
  // A name that is no identifier is no field of anybody, and one this long is no name.
  if (name.length > 128) return false;
  const words = name.replaceAll(/([a-z0-9])(?=[A-Z])/g, '$1_').replaceAll(/([A-Z])(?=[A-Z][a-z])/g, '$1_');
  return secretName.test(words.replaceAll(/[-. ]/g, '_').toLowerCase());
}

const patterns: readonly [RegExp, string][] = [
  [/([a-z][a-z0-9+.-]{0,31}:\/\/)[^/\s:@]*:[^/\s@]+@/gi, `$1${mark}@`],
  [/([?&](?:api[-_]?key|key|token|access_token|secret|password|sig|signature)=)[^&\s"']+/gi, `$1${mark}`],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/g, `$1 ${mark}`],
  [/\bsk-[A-Za-z0-9_-]{8,}/g, mark],
  [/\bAIza[A-Za-z0-9_-]{20,}/g, mark],
];

/** Shorter values are found in too many words to be looked for. */
const minSecretChars = 6;

/**
 * How secrets look in texts: as they are, URL-encoded, in base64 (also in the middle of something longer), and
 * JSON-escaped. Values under 6 characters are left out. Longest first, because a form that contains another must go before
 * that one leaves a tail behind.
 */
export function secretForms(secrets: Iterable<string | undefined>): readonly string[] {
  const forms = new Set<string>();
  for (const secret of secrets) {
    if (!secret || secret.length < minSecretChars) continue;
    forms.add(secret);
    const encoded = encodeURIComponent(secret.toWellFormed());
    forms.add(encoded);
    forms.add(encoded.replaceAll(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase()));
    forms.add(new URLSearchParams([['', secret]]).toString().slice(1));
    for (const form of base64Forms(secret)) forms.add(form);
    for (const form of jsonForms(secret)) forms.add(form);
  }
  return [...forms].sort((a, b) => b.length - a.length);
}

/** As JSON writers escape it: as few characters as possible, slashes too, everything beyond ASCII too. */
function jsonForms(secret: string): string[] {
  const plain = jsonText(secret).slice(1, -1);
  const ascii = plain.replaceAll(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return [plain, ascii].flatMap((form) => [form, form.replaceAll('/', '\\/')]);
}

/**
 * The value by itself, and what stays the same of it wherever it stands in something longer: three bytes make four
 * characters, so that there are three ways to begin, and the characters at both ends belong to the neighbours as well.
 */
function base64Forms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const plain = bytes.toString('base64').replace(/=+$/, '');
  const inner = [0, 1, 2].map((before) => {
    const all = Buffer.concat([Buffer.alloc(before), bytes]);
    return all.toString('base64').slice(Math.ceil((before * 8) / 6), Math.floor((all.length * 8) / 6));
  });
  return [plain, ...inner].flatMap((form) => [form, form.replaceAll('+', '-').replaceAll('/', '_')]);
}

/** How many credentials that came after the start are known at once: of old ones the provider knows nothing any more. */
const maxLearned = 1_000;

/**
 * Removes credentials from text on its way to an event, an error, a log line or a stored summary: known patterns, and
 * the exact values that this process was started with or has learned since, in all of their {@link secretForms}.
 */
export class Redactor {
  readonly #given: ReadonlySet<string>;
  readonly #learned = new Set<string>();
  #forms: SecretForms;

  constructor(secrets: Iterable<string | undefined> = []) {
    this.#given = new Set([...secrets].filter((secret) => secret !== undefined));
    this.#forms = new SecretForms(secretForms(this.#given));
  }

  /** From now on these are removed, too. Of all that were learned the newest 1,000 are known. */
  learn(secrets: Iterable<string>): void {
    const fresh = [...secrets].filter((secret) => !this.#given.has(secret) && !this.#learned.has(secret));
    if (fresh.length === 0) return;
    for (const secret of fresh) this.#learned.add(secret);
    for (const oldest of this.#learned) {
      if (this.#learned.size <= maxLearned) break;
      this.#learned.delete(oldest);
    }
    this.#forms = new SecretForms(secretForms([...this.#given, ...this.#learned]));
  }

  /**
   * The text without the exact values of this process's secrets; what merely looks like a credential stays. Values that
   * overlap go together.
   */
  secrets(text: string, replacement = mark): string {
    return this.#forms.mask({ text, covered: 0 }, text.length, replacement).clean;
  }

  /** A value as JSON has it, without the exact values of this process's secrets. */
  json(value: unknown): unknown {
    return JSON.parse(jsonText(value), (_, item: unknown) => (typeof item === 'string' ? this.secrets(item) : item));
  }

  /** For a text that comes in pieces: removes also what is split over them. */
  stream(): SecretStream {
    return new SecretStream(() => this.#forms, mark);
  }

  /** The text without credentials. */
  text(text: string): string {
    let clean = this.secrets(text);
    for (const [pattern, replacement] of patterns) clean = clean.replace(pattern, replacement);
    return clean;
  }

  /** A copy of a JSON value: secret-named fields masked, every string scrubbed. Depth and cycles are bounded. */
  value(value: unknown, depth = 0): unknown {
    if (typeof value === 'string') return this.text(value);
    if (value === null || typeof value !== 'object') return value;
    if (depth > 64) return '[too deep]';
    if (Array.isArray(value)) return value.map((item) => this.value(item, depth + 1));
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, isSecretName(name) ? mark : this.value(item, depth + 1)]),
    );
  }
}

/**
 * The path of the first secret-named key that has a text or a number, or a list with one, or undefined. Producers refuse
 * such payloads. A JSON Schema that describes a field of such a name is none.
 */
export function findSecretKey(value: unknown, path: readonly string[] = []): string | undefined {
  if (value === null || typeof value !== 'object' || path.length > 64) return undefined;
  for (const [name, item] of Object.entries(value)) {
    const here = [...path, name];
    if (!Array.isArray(value) && isSecretName(name) && isCredential(item)) return here.join('.');
    const found = findSecretKey(item, here);
    if (found) return found;
  }
  return undefined;
}

function isCredential(value: unknown): boolean {
  if (Array.isArray(value)) return value.some((item) => !Array.isArray(item) && isCredential(item));
  return (typeof value === 'string' && value !== '') || typeof value === 'number';
}

/** At most `maxBytes` of UTF-8, cut between characters, with a marker that says how much is missing. */
export function cutText(text: string, maxBytes: number): string {
  const size = Buffer.byteLength(text);
  if (size <= maxBytes) return text;
  const marker = ` […${size - maxBytes} bytes cut]`;
  const head = Buffer.from(text).subarray(0, Math.max(0, maxBytes - Buffer.byteLength(marker)));
  return head.toString('utf8').replace(/\uFFFD+$/, '') + marker;
}
