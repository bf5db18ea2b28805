import { z } from 'zod';
import { sanitization, trustClass } from '../../contract/agent/agent.ts';
import { RunError } from '../../base/errors.ts';
import { sensitivity } from '../../contract/message.ts';

/** What is known about a body, as stores write it down. */
export const keptInfo = z.object({
  toolName: z.string(),
  trust: trustClass,
  sensitivity,
  inboundSanitization: sanitization.exactOptional(),
});

/** What every store of kept results holds to, in bytes. */
export interface ArtifactBounds {
  readonly maxBytes: number;
  /** All of one run together. */
  readonly maxRunBytes: number;
}

/** Names become parts of paths and keys. Throws `internal`: they are made by us. */
export function checkNames(...names: readonly string[]): void {
  if (!names.every((name) => /^[A-Za-z0-9_-]{1,64}$/.test(name)))
    throw new RunError('internal', 'the name of a run or of a kept result has a wrong form');
}

/** Throws `payload_too_large`. */
export function checkSize(body: Uint8Array, { maxBytes }: ArtifactBounds): void {
  if (body.length <= maxBytes) return;
  throw new RunError('payload_too_large', `a result of ${body.length} bytes is over ARTIFACT_MAX_BYTES (${maxBytes})`);
}

export function runIsFull({ maxRunBytes }: ArtifactBounds): RunError {
  const message = `the kept results of the run would be over ARTIFACT_RUN_MAX_BYTES (${maxRunBytes})`;
  return new RunError('payload_too_large', message);
}

/** The range of bytes that there are of one that was asked for: from, and up to but without. */
export function rangeIn(totalBytes: number, offset: number, length: number): readonly [from: number, to: number] {
  const from = Math.min(Math.max(0, offset), totalBytes);
  return [from, Math.min(totalBytes, from + Math.max(0, length))];
}

/** What is left after a worker that died goes after this. The stores that cannot do that by themselves are swept. */
export interface Swept {
  /** Removes what is older than its time, by the clock given in milliseconds since the epoch. */
  sweep(nowMs: number): Promise<void>;
}
