import { defined } from '../../../shared/base/collections.ts';
import { Redactor } from '../../../shared/base/redact.ts';
import { agentThen, type AgentThen, type RunSteps } from '../../../shared/contract/archive/run-steps.ts';
import { stepsOf } from '../../../shared/contract/archive/steps-of.ts';
import { isUnavailable } from '../../../shared/state/errors.ts';
import { checkRunId } from '../accept/validate.ts';
import type { TenantClient } from '../client-core.ts';
import { readRun } from './read-source.ts';

/** Credentials of workers are masked where they are written; here is what looks like one. */
export const recordRedactor = new Redactor();

/** What a run has done so far, or did. */
export async function readSteps(id: string, client: TenantClient): Promise<RunSteps> {
  const { from, source, definition } = await readRun(checkRunId(id), client);
  const steps = stepsOf(source, { source: from, redactor: recordRedactor });
  return defined({ ...steps, agentThen: await agentThenOf(definition, client) });
}

/** One that cannot be read hides nothing of the run. */
async function agentThenOf(digest: string | undefined, { core }: TenantClient): Promise<AgentThen | undefined> {
  if (digest === undefined) return undefined;
  const found = await core.archive.readDefinition(digest).catch((error: unknown) => {
    if (isUnavailable(error)) throw error;
    return undefined;
  });
  return agentThen.safeParse({ instructions: found?.['instructions'], tools: found?.['toolDefinitions'] }).data;
}
