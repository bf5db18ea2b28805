import type { Sensitivity } from '../../contract/message.ts';
import type { ProgressNote, ProgressQuery } from '../../contract/progress.ts';

/** A note to be written. */
export interface ProgressDraft {
  readonly runId: string;
  readonly tenant: string;
  readonly role: string;
  /** Default: the next of this run and role. */
  readonly seq?: number;
  readonly text: string;
  readonly sensitivity: Sensitivity;
  readonly tags: readonly string[];
  /** The same key again writes nothing, and answers the note that there is. */
  readonly key: string;
}

/** A note with its text, which is absent when it cannot be read here. */
export interface ProgressEntry {
  readonly note: ProgressNote;
  readonly text?: string;
}

/**
 * Notes that agents leave for later sessions and other processes. Numbers and what is known of each are in Redis; the
 * texts are there too, or in the folder of kept results. All forms pass `test/contract/progress-notes.ts`.
 */
export interface ProgressNotes {
  /**
   * Numbers are unique for a run and role, and no note is ever replaced. Throws `validation` for a draft of a wrong form
   * and `progress_write_failed` for everything else, a number that is taken included.
   */
  write(draft: ProgressDraft): Promise<ProgressNote>;
  /** Notes of a run of this tenant, by number and then by role. Throws `validation`, `queue_unavailable`. */
  read(tenant: string, runId: string, query: ProgressQuery): Promise<readonly ProgressEntry[]>;
}
