import { z } from 'zod';
import { publicId } from '../../base/ids.ts';
import { jsonCopy } from '../../base/json-value.ts';
import { maxTaskStateBytes, taskSettings, taskSpec } from './task.ts';

const { budget, stopPolicies, onActionFailure } = taskSettings.shape;
const { intent, requirements } = taskSpec.shape;

/** JSON of any form. Not `z.json()`, which no OpenAPI document can describe. */
const json = z.unknown().refine(isSmallJson, `must be JSON of at most ${maxTaskStateBytes} bytes`);

/** A task that a worker runs over an adapter which it has by name. The id of the task is that of the run. */
export const taskRequest = z.strictObject({
  adapter: publicId,
  intent,
  input: json.default(null),
  requirements,
  /** What is known, by the id of the requirement. */
  knowledge: z.record(publicId, z.unknown()).refine(isSmallJson, 'is no JSON, or too large').default({}),
  /** Where it ends at the latest. A cap of the run's own holds, too. */
  limits: budget,
  stopPolicies,
  onActionFailure,
});
export type TaskRequest = z.output<typeof taskRequest>;

function isSmallJson(value: unknown): boolean {
  try {
    jsonCopy(value ?? null, 'it', maxTaskStateBytes);
    return true;
  } catch {
    return false;
  }
}
