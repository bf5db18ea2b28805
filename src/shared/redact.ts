const mark = '[redacted]';

const secretName =
  /^(api[-_]?key|x[-_]api[-_]key|authorization|proxy[-_]authorization|password|passwd|secret|client[-_]?secret|access[-_]?token|refresh[-_]?token|bearer|private[-_]?key|cookie|set[-_]cookie)$/i;

/** Does a field with this name hold a credential? */
export function isSecretName(name: string): boolean {
  return secretName.test(name);
}

const patterns: readonly [RegExp, string][] = [
  [/([a-z][a-z0-9+.-]{0,31}:\/\/)[^/\s:@]*:[^/\s@]+@/gi, `$1${mark}@`],
  [/([?&](?:api[-_]?key|key|token|access_token|secret|password|sig|signature)=)[^&\s"']+/gi, `$1${mark}`],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/g, `$1 ${mark}`],
  [/\bsk-[A-Za-z0-9_-]{8,}/g, mark],
  [/\bAIza[A-Za-z0-9_-]{20,}/g, mark],
];

/**
 * Removes credentials from text on its way to an event, an error, a log line or a stored summary: known patterns, and
 * the exact values that this process was started with, also in their URL-encoded, base64 and JSON-escaped forms.
 */
export class Redactor {
  readonly #values: string[];

  constructor(secrets: Iterable<string | undefined> = []) {
    const forms = new Set<string>();
    for (const secret of secrets) {
      if (!secret || secret.length < 6) continue;
      forms.add(secret);
      forms.add(encodeURIComponent(secret));
      forms.add(Buffer.from(secret).toString('base64').replace(/=+$/, ''));
      forms.add(Buffer.from(secret).toString('base64url'));
      forms.add(JSON.stringify(secret).slice(1, -1));
    }
    // Longest first: a form that contains another must go before it leaves a tail behind.
    this.#values = [...forms].sort((a, b) => b.length - a.length);
  }

  /** The text without the exact values of this process's secrets; what merely looks like a credential stays. */
  secrets(text: string): string {
    let clean = text;
    for (const value of this.#values) if (clean.includes(value)) clean = clean.replaceAll(value, mark);
    return clean;
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

/** The path of the first secret-named key that has a value, or undefined. Producers refuse such payloads. */
export function findSecretKey(value: unknown, path: readonly string[] = []): string | undefined {
  if (value === null || typeof value !== 'object' || path.length > 64) return undefined;
  for (const [name, item] of Object.entries(value)) {
    const here = [...path, name];
    if (!Array.isArray(value) && isSecretName(name) && item !== null && item !== '') return here.join('.');
    const found = findSecretKey(item, here);
    if (found) return found;
  }
  return undefined;
}

/** At most `maxBytes` of UTF-8, cut between characters, with a marker that says how much is missing. */
export function cutText(text: string, maxBytes: number): string {
  const size = Buffer.byteLength(text);
  if (size <= maxBytes) return text;
  const marker = ` […${size - maxBytes} bytes cut]`;
  const head = Buffer.from(text).subarray(0, Math.max(0, maxBytes - Buffer.byteLength(marker)));
  return head.toString('utf8').replace(/\uFFFD+$/, '') + marker;
}
