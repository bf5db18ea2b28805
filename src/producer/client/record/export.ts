import { defined } from '../../../shared/base/collections.ts';
import { isRecord } from '../../../shared/base/json.ts';
import { runExportKind, runExportVersion, type RunExport } from '../../../shared/contract/archive/run-export.ts';
import { stepsOf } from '../../../shared/contract/archive/steps-of.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { isDelta } from '../../../shared/contract/event.ts';
import { viewOf } from '../../../shared/contract/run.ts';
import { checkRunId } from '../accept/validate.ts';
import type { TenantClient } from '../client-core.ts';
import { readRun } from './read-source.ts';
import { recordRedactor } from './steps.ts';

/** Runs in one document, with all that work for it. */
const maxRuns = 200;

/** A run with everything that is known of it, and of the runs that worked for it, as one document. */
export async function exportRun(id: string, client: TenantClient): Promise<RunExport> {
  return await exportWithin(checkRunId(id), client, { left: maxRuns });
}

async function exportWithin(runId: string, client: TenantClient, room: { left: number }): Promise<RunExport> {
  room.left--;
  const { from, source, decisions, definition } = await readRun(runId, client);
  const { record, events } = source;
  const steps = stepsOf(source, { source: from, redactor: recordRedactor });
  const agent = definition === undefined ? undefined : await client.core.archive.readDefinition(definition);
  const children: RunExport[] = [];
  for (const child of steps.children) {
    const found = room.left > 0 ? await childWithin(child.runId, client, room) : undefined;
    if (found) children.push(found);
  }
  return defined({
    kind: runExportKind,
    v: runExportVersion,
    run: viewOf(record, decisions),
    request: record.request,
    agent: isRecord(agent) ? agent : null,
    initial: steps.initial,
    steps,
    events: events.filter(({ type }) => !isDelta(type)),
    truncated: children.length < steps.children.length ? (true as const) : undefined,
    children,
  });
}

/** One that is past its time is left out. */
async function childWithin(
  runId: string,
  client: TenantClient,
  room: { left: number },
): Promise<RunExport | undefined> {
  try {
    return await exportWithin(runId, client, room);
  } catch (error) {
    if (error instanceof RunError && (error.code === 'gone' || error.code === 'run_not_found')) return undefined;
    throw error;
  }
}
