import { RunError } from '../../base/errors.ts';
import { defined } from '../../base/collections.ts';
import type { Message } from '../../contract/message.ts';
import { filesOfRun, isTerminalStatus, type RunRecord } from '../../contract/run.ts';
import { summaryMessage } from '../../contract/thread/summary-message.ts';
import { pastOf, type ThreadContext } from '../../contract/thread/thread-context.ts';
import type { ThreadKeySpace } from './key-space.ts';
import { readContext } from './log.ts';

/**
 * The conversation of a run in a thread before its first answer, what it was asked last. Undefined: it is in no thread, or what it began
 * with is not there any more.
 */
export async function readBeginning(space: ThreadKeySpace, record: RunRecord): Promise<readonly Message[] | undefined> {
  const { runId, tenant, request } = record;
  if (request.thread === undefined || request.store === false) return undefined;
  const context = await readContext(space, { tenant, threadId: request.thread }, runId).catch((error: unknown) => {
    if (error instanceof RunError && error.code !== 'queue_unavailable') return undefined;
    throw error;
  });
  if (!context) return undefined;
  const past = isTerminalStatus(record.status) ? pastBefore(context, runId) : pastOf(context, runId).messages;
  return past && [...past, defined({ role: 'user', content: request.input, files: filesOfRun(record) })];
}

/** The conversation that a run of the past began with. Undefined where a summary stands for it by now. */
function pastBefore({ summary, messages }: ThreadContext, runId: string): readonly Message[] | undefined {
  const first = messages.find((message) => message.runId === runId && !message.byCaller)?.seq;
  if (first === undefined || (summary && summary.upTo >= first)) return undefined;
  const before = messages.filter(({ seq }) => seq < first).map(({ message }) => message);
  return [...(summary ? [summaryMessage(summary.text, summary)] : []), ...before];
}
