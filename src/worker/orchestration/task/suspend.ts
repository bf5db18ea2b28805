import { faultOf } from '../../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { taskState, taskStateVersion, type TaskState } from '../../../shared/contract/orchestration/task.ts';
import type { AnyAdapter } from '../../agents/adapter.ts';

const versioned = z.object({ version: z.int() });

/**
 * Reads the state of a task that waits, as an object or as JSON text. Throws `run_state_malformed`,
 * `run_state_version_unsupported`, and `validation` when the adapter has another id.
 */
export function readTaskState(saved: unknown, adapter: AnyAdapter): TaskState {
  const json = typeof saved === 'string' ? parsed(saved) : saved;
  const version = versioned.safeParse(json).data?.version;
  if (version !== undefined && version !== taskStateVersion)
    throw new RunError('run_state_version_unsupported', `the task state has version ${version}`);
  const read = taskState.safeParse(json);
  if (!read.success) {
    const fault = faultOf(read.error);
    throw new RunError('run_state_malformed', `the task state cannot be read: ${fault}`, { cause: read.error });
  }
  const { adapterId } = read.data;
  if (adapterId !== adapter.id)
    throw new RunError(
      'validation',
      `the task state is of adapter ${adapterId ?? 'without an id'}, not of ${adapter.id}`,
    );
  return read.data;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RunError('run_state_malformed', 'the task state is not JSON', { cause });
  }
}
