import { firstProblemOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import { decisionRecord } from '../../shared/contract/decisions.ts';
import { RunError } from '../../shared/base/errors.ts';
import { journalEntry, journalVersion } from '../../shared/contract/journal/journal.ts';
import { jsonText } from '../../shared/base/json.ts';
import { isSecretName } from '../../shared/base/redact.ts';
import { isTerminalStatus, runRecord, runRecordVersion } from '../../shared/contract/run.ts';
import type { Agent } from '../agents/define-agent.ts';
import type { SavedRun } from './stores/in-memory-row.ts';

const runStateVersion = 1;

const runState = z.strictObject({
  version: z.literal(runStateVersion),
  agentId: z.string(),
  record: runRecord,
  entries: z.array(journalEntry),
  decisions: z.array(decisionRecord),
});

/**
 * Everything that a run needs to go on elsewhere: its record, its journal and the decisions about its calls so far. It
 * contains what the model and the tools wrote; keep it as private as they are.
 */
export type RunState = z.output<typeof runState>;

/** The state of a run as a store hands it out. */
export function runStateOf({ record, entries, decisions }: SavedRun): RunState {
  const agentId = record.request.agent;
  return { version: runStateVersion, agentId, record, entries: [...entries], decisions: [...decisions] };
}

/**
 * The state as a text for any storage. The values of fields with names of credentials (`apiKey`, `password`, …) are masked;
 * the arguments that a model wrote are text and stay as they are, because open calls still need them. So do the names of
 * sessions that providers keep (`sessionToken`): without the provider's key they open nothing, and the run goes on by them.
 *
 * @example
 * await writeFile('run.json', runStateToJSON(await agent.state(runId)));
 */
export function runStateToJSON(state: RunState): string {
  const entries = new Set<unknown>(state.entries);
  return jsonText(state, function (name, value) {
    if (name === '' || !isSecretName(name)) return value;
    return name === 'sessionToken' && entries.has(this) ? value : mask(value);
  });
}

function mask(value: unknown): unknown {
  return value === null || value === '' ? value : '[redacted]';
}

/**
 * Reads what {@link runStateToJSON} wrote, as text or parsed already. Throws `run_state_malformed`,
 * `run_state_version_unsupported`, and `validation` for a state of another agent.
 */
export function runStateFromJSON(serialised: unknown, agent: Pick<Agent, 'definition'>): RunState {
  const json = typeof serialised === 'string' ? parsed(serialised) : serialised;
  refuseOtherVersions(json);
  const read = runState.safeParse(json);
  if (!read.success) {
    throw new RunError('run_state_malformed', `the run state cannot be read: ${firstProblemOf(read.error)}`, {
      cause: read.error,
    });
  }
  const { agentId, record } = read.data;
  if (agentId !== record.request.agent) {
    throw new RunError('run_state_malformed', `the run state is of ${agentId}, its record of ${record.request.agent}`);
  }
  if (agentId === agent.definition.id) return read.data;
  throw new RunError('validation', `the run state is of agent ${agentId}, not of ${agent.definition.id}`);
}

/** Throws `already_terminal` for the state of a run that has ended: there is nothing left to go on with. */
export function refuseEnded({ record }: Pick<RunState, 'record'>): void {
  if (!isTerminalStatus(record.status)) return;
  throw new RunError('already_terminal', `run ${record.runId} has ended as ${record.status} and cannot go on`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RunError('run_state_malformed', 'the run state is not JSON', { cause });
  }
}

const versions = z.object({
  version: z.int(),
  record: z.object({ v: z.int() }).optional().catch(undefined),
  entries: z
    .array(z.object({ v: z.int() }).optional().catch(undefined))
    .optional()
    .catch(undefined),
});

/** A state of another version has another shape, so that its other faults mean nothing. */
function refuseOtherVersions(json: unknown): void {
  const found = versions.safeParse(json).data;
  if (!found) return;
  const { version, record, entries = [] } = found;
  const entry = entries.find((each) => each !== undefined && each.v !== journalVersion);
  const other =
    version !== runStateVersion
      ? `version ${version}`
      : record !== undefined && record.v !== runRecordVersion
        ? `a record of version ${record.v}`
        : entry && `journal entries of version ${entry.v}`;
  if (other) throw new RunError('run_state_version_unsupported', `the run state has ${other}`);
}
