import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';

/** Ids that callers choose: threads, executions, sessions. Checked before they can reach a Redis key. */
export const publicId = z
  .string()
  .regex(/^[A-Za-z0-9._:-]{1,128}$/, 'must be 1 to 128 characters of A-Z a-z 0-9 . _ : -');

/** Run ids are made here, never by callers: 26 characters of Crockford base 32 (a ULID, or a digest in its form). */
export const runId = z.string().regex(/^[0-9A-HJKMNP-TV-Z]{26}$/, 'is not a run id');

const crockford = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

function encode(bytes: Uint8Array): string {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  let text = '';
  for (let i = 0; i < 26; i++) {
    text = crockford[Number(value & 31n)] + text;
    value >>= 5n;
  }
  return text;
}

/** A new ULID: 48 bits of milliseconds, 80 random bits. */
export function newRunId(nowMs: number): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(nowMs, 0, 6);
  return encode(bytes);
}

/**
 * The run id that belongs to a tenant's execution id. Deriving it makes the run record itself the deduplication entry:
 * two submissions meet on one key and therefore in one Redis slot, so one script can decide between them.
 */
export function runIdForExecution(tenant: string, executionId: string): string {
  return encode(createHash('sha256').update(`${tenant}\0${executionId}`).digest().subarray(0, 16));
}

/** The run id of a child: the same on every worker that comes to this point of the parent. */
export function runIdForChild(parentRunId: string, position: string): string {
  return encode(createHash('sha256').update(`child\0${parentRunId}\0${position}`).digest().subarray(0, 16));
}

/**
 * When a run id was made, in milliseconds since the epoch. Undefined for one that was derived from an execution id; of those
 * fewer than one in a thousand answers some time in the past.
 */
export function timeOfRunId(run: string, nowMs: number): number | undefined {
  let ms = 0;
  for (const letter of run.slice(0, 10)) ms = ms * 32 + crockford.indexOf(letter);
  const plausible = ms > earliestMs && ms < nowMs + hourMs;
  return plausible ? ms : undefined;
}

/** No run is older. */
const earliestMs = Date.UTC(2025, 0);
const hourMs = 3_600_000;

/** A fresh owner or operation nonce. */
export function newNonce(): string {
  return randomBytes(12).toString('base64url');
}

/** BullMQ job id of a run's segment. BullMQ refuses ids with a colon and plain integers; a run id with a suffix is neither. */
export function jobIdFor(run: string, segment: number): string {
  return `${run}-s${segment}`;
}

/** SHA-256 in hex. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Stands for every name that no operator configured: in labels of metrics, counters of costs and keys of limiters. */
export const otherName = 'other';

/** The name itself where it is one of these, else `other`: callers name models as they like, and names make keys. */
export function closedNames(names: Iterable<string>): (name: string) => string {
  const known = new Set(names);
  return (name) => (known.has(name) ? name : otherName);
}
