import { z } from 'zod';
import { RunError } from '../base/errors.ts';
import { isDelta, isLifecycle } from '../contract/event.ts';
import { journalEntry, journalVersion, type JournalEntry } from '../contract/journal/journal.ts';
import { jsonText, storedJson } from '../base/json-text.ts';
import type { OutgoingEvent } from './run/run-store.ts';

/** An event as scripts take it: one letter that says where it goes, then its JSON without version and number. */
export function scriptEvent(event: OutgoingEvent): string {
  const flag = isDelta(event.type) ? 'D' : isLifecycle(event.type) ? 'L' : 'N';
  return flag + jsonText(event);
}

/** Reads a journal entry. Throws `run_state_malformed` or `run_state_version_unsupported`. */
export function readEntry(text: string, runId: string): JournalEntry {
  const json = readJson(text, `a journal entry of run ${runId}`);
  const parsed = journalEntry.safeParse(json);
  if (parsed.success) return parsed.data;
  const version = z.object({ v: z.int() }).safeParse(json);
  if (version.success && version.data.v !== journalVersion) {
    throw new RunError(
      'run_state_version_unsupported',
      `run ${runId} has journal entries of version ${version.data.v}`,
    );
  }
  throw new RunError('run_state_malformed', `a journal entry of run ${runId} cannot be read`, { cause: parsed.error });
}

function readJson(text: string, what: string): unknown {
  try {
    return storedJson(text);
  } catch (cause) {
    throw new RunError('run_state_malformed', `${what} is not JSON`, { cause });
  }
}
