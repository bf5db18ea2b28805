import type { Sanitization, TrustClass } from '../../contract/agent/agent.ts';
import type { Sensitivity } from '../../contract/message.ts';

/** What is known about a kept result beside its text. */
export interface ArtifactInfo {
  readonly toolName: string;
  readonly trust: TrustClass;
  readonly sensitivity: Sensitivity;
  /** What is done to it before a model reads it. Absent: what its trust class asks for. */
  readonly inboundSanitization?: Sanitization;
  readonly totalBytes: number;
}

/**
 * Results that were too large for a model, kept for the run that made them and readable from every worker. Kept in Redis,
 * in a shared folder or in an S3-compatible store; all pass `test/contract/artifacts.ts`, and so does the memory form.
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
