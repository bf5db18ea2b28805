import { sanitization } from '../../contract/agent/agent.ts';
import { trustClass } from '../../contract/agent/trust.ts';
import { sensitivity } from '../../contract/message.ts';
import { z } from 'zod';
import { RunError } from '../../base/errors.ts';

/** What is known about a body, as stores write it down. */
export const keptInfo = z.object({
  toolName: z.string(),
  trust: trustClass,
  sensitivity,
  /** What is done to it before a model reads it. Absent: what its trust class asks for. */
  inboundSanitization: sanitization.exactOptional(),
});

/** What is known about a kept result beside its text. */
export interface ArtifactInfo extends Readonly<z.infer<typeof keptInfo>> {
  readonly totalBytes: number;
}

/**
 * Results that were too large for a model, kept for the run that made them and readable from every worker. Kept in Redis,
 * in a shared folder or in an S3-compatible store; all pass `test/contract/artifacts.ts`, and so does the in-memory form.
 * Throws `payload_too_large` above the store's bound and `queue_unavailable` when it cannot be reached.
 */
export interface Artifacts {
  /** Keeps a body under a name of this run. The same name again replaces it. Names are 1 to 64 of A-Z a-z 0-9 _ - */
  put(runId: string, name: string, body: Uint8Array, info: Omit<ArtifactInfo, 'totalBytes'>): Promise<void>;
  /** At most `length` bytes from `offset`; undefined when the run has nothing of this name. */
  read(
    runId: string,
    name: string,
    offset: number,
    length: number,
  ): Promise<{ readonly bytes: Uint8Array; readonly info: ArtifactInfo } | undefined>;
  /** Forgets everything of a run. What a run leaves behind by a crash goes by itself after 7 days. */
  drop(runId: string): Promise<void>;
}

/** The bounds of every store of kept results, in bytes. */
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
