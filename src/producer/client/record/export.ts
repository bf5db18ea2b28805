import { defined } from '../../../shared/base/collections.ts';
import { isRecord, jsonText } from '../../../shared/base/json.ts';
import {
  maxExportBytes,
  maxExportedRuns,
  runExportKind,
  runExportVersion,
  type RunExport,
} from '../../../shared/contract/archive/run-export.ts';
import { stepsOf } from '../../../shared/contract/archive/steps-of.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { isDelta } from '../../../shared/contract/event.ts';
import { maxDepth, viewOf } from '../../../shared/contract/run.ts';
import { checkRunId } from '../accept/validate.ts';
import type { TenantClient } from '../client-core.ts';
import { readRun } from './read-source.ts';
import { recordRedactor } from './steps.ts';

/** What is left for children: they are left out once the document would be too large to be read again, indentation included. */
interface Room {
  runs: number;
  bytes: number;
}

/** A run with everything that is known of it, and of the runs that worked for it, as one document. */
export async function exportRun(id: string, client: TenantClient): Promise<RunExport> {
  const runId = checkRunId(id);
  return await exportWithin(runId, client, {
    parents: [],
    room: { runs: maxExportedRuns - 1, bytes: maxExportBytes / 2 },
  });
}

async function exportWithin(
  runId: string,
  client: TenantClient,
  { parents, room }: { readonly parents: readonly string[]; readonly room: Room },
): Promise<RunExport> {
  const { from, source, decisions, definition } = await readRun(runId, client);
  const { record, events, earlier = [] } = source;
  const steps = stepsOf(source, { source: from, redactor: recordRedactor });
  const agent = definition === undefined ? undefined : await client.core.archive.readDefinition(definition);
  const own: Omit<RunExport, 'children'> = defined({
    kind: runExportKind,
    v: runExportVersion,
    run: viewOf(record, decisions),
    request: record.request,
    agent: isRecord(agent) ? agent : null,
    initial: steps.initial,
    steps,
    events: [...earlier, ...events].filter(({ type }) => !isDelta(type)),
  });
  const isRoot = parents.length === 0;
  if (steps.children.length > 0 || !isRoot) room.bytes -= Buffer.byteLength(jsonText(own));
  const line = [...parents, runId];
  const children: RunExport[] = [];
  for (const child of steps.children) {
    // What a journal says is not checked: a run that is its own child would have no end.
    const isIn = room.runs > 0 && room.bytes > 0 && line.length <= maxDepth && !line.includes(child.runId);
    if (!isIn) continue;
    room.runs--;
    const found = await childWithin(child.runId, client, { parents: line, room });
    if (found) children.push(found);
  }
  const isCut = children.length < steps.children.length;
  return { ...own, ...(isCut && { truncated: true as const }), children };
}

/** One that is past its time is left out, and one that is too large. */
async function childWithin(
  runId: string,
  client: TenantClient,
  within: { readonly parents: readonly string[]; readonly room: Room },
): Promise<RunExport | undefined> {
  try {
    const child = await exportWithin(runId, client, within);
    return within.room.bytes < 0 ? undefined : child;
  } catch (error) {
    if (error instanceof RunError && (error.code === 'gone' || error.code === 'run_not_found')) return undefined;
    throw error;
  }
}
