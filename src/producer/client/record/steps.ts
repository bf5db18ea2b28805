import { Redactor } from '../../../shared/base/redact.ts';
import type { RunSteps } from '../../../shared/contract/archive/run-steps.ts';
import { stepsOf } from '../../../shared/contract/archive/steps-of.ts';
import { checkRunId } from '../accept/validate.ts';
import type { TenantClient } from '../client-core.ts';
import { readRun } from './read-source.ts';

/** Credentials of workers are masked where they are written; here is what looks like one. */
export const recordRedactor = new Redactor();

/** What a run has done so far, or did. */
export async function readSteps(id: string, client: TenantClient): Promise<RunSteps> {
  const { from, source } = await readRun(checkRunId(id), client);
  return stepsOf(source, { source: from, redactor: recordRedactor });
}
