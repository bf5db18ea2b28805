import { RunError } from '../../shared/base/errors.ts';
import type { HandoffFilterDescriptor } from '../../shared/contract/handoff/handoff.ts';
import type { Message } from '../../shared/contract/message.ts';
import { summaryMessage } from '../../shared/contract/thread/summary-message.ts';
import { threadContext, pastOf } from '../../shared/contract/thread/thread-context.ts';
import { readExport, type ExportedThread } from '../../shared/contract/thread/thread-items.ts';
import { isPrompt, type ThreadEntry, type ThreadEntryOf } from '../../shared/contract/thread/thread.ts';
import { payloadDigest } from '../../shared/contract/thread/turn-log.ts';
import { withLabels } from '../../shared/contract/handoff/crossing-labels.ts';
import { crossing, filterFrom } from '../../shared/contract/handoff/handoff-filters.ts';

/** A handoff of an exported thread. */
export interface ExportedHandoff {
  /** Number of its entry in the log. */
  readonly seq: number;
  readonly runId: string;
  readonly fromAgentId: string;
  readonly toAgentId: string;
  readonly descriptor: HandoffFilterDescriptor;
}

/**
 * What came of replaying it.
 *
 * - replayed: these messages crossed; the other agent's first request had them after its own system text
 * - refused: they cannot be rebuilt. `validation`: a `custom` filter chose them, for this handoff or one before it in the same
 *   run. `run_state_malformed`: the export gives others than crossed, so something is missing in it or was changed
 */
export type ReplayedHandoff = ExportedHandoff &
  (
    | { readonly kind: 'replayed'; readonly messages: readonly Message[] }
    | { readonly kind: 'refused'; readonly error: RunError }
  );

/**
 * Rebuilds from an exported thread what crossed at each of its handoffs, byte for byte, in the order of the log. Takes the text
 * of `millrace threads export` and of `GET /v1/threads/:id/export`, or the lines of `mill.threads.export`. Throws
 * `validation` for anything else.
 *
 * @example
 * for (const handoff of replayHandoffs(await readFile('customer-42.jsonl', 'utf8')))
 *   if (handoff.kind === 'replayed') console.log(handoff.toAgentId, handoff.messages);
 */
export function replayHandoffs(exported: string | Iterable<unknown>): readonly ReplayedHandoff[] {
  const thread = readExport(exported);
  return thread.entries.flatMap(({ seq, entry }) => (entry.t === 'handoff' ? [replayed(thread, seq, entry)] : []));
}

type Handoff = ThreadEntryOf<'handoff'>;

function replayed(thread: ExportedThread, seq: number, entry: Handoff): ReplayedHandoff {
  const { runId, fromAgentId, toAgentId, descriptor, digest } = entry;
  const about = { seq, runId, fromAgentId, toAgentId, descriptor };
  try {
    const messages = crossingAt(entry, conversationBefore(thread, seq, entry));
    if (digest !== undefined && payloadDigest(messages) !== digest)
      throw new RunError('run_state_malformed', `what crossed at entry ${seq} is not what this export gives`);
    return { ...about, kind: 'replayed', messages };
  } catch (error) {
    if (!(error instanceof RunError)) throw error;
    return { ...about, kind: 'refused', error };
  }
}

interface Conversation {
  /** As the active agent has it. */
  readonly view: readonly Message[];
  /** All that the run has had of it. */
  readonly read: readonly Message[];
}

/** What the agent that handed over had before it: that of the thread, then its own part of the turn. */
function conversationBefore(
  { manifest, entries }: ExportedThread,
  seq: number,
  { runId, began }: Handoff,
): Conversation {
  const before = entries.filter((entry) => entry.seq <= began);
  const past = pastOf(threadContext(manifest, before, began), runId);
  const turn = entries.flatMap(({ seq: at, entry }) => (at < seq && isOfTurn(entry, runId) ? [entry] : []));
  const begun = [...past.messages, ...turn.filter(isPrompt).flatMap(messagesOf)];
  return turn.filter((entry) => !isPrompt(entry)).reduce<Conversation>(after, { view: begun, read: begun });
}

/** Was it said in the turn of the run, by anybody but its caller? */
function isOfTurn(entry: ThreadEntry, runId: string): boolean {
  return entry.runId === runId && !(entry.t === 'message' && entry.byCaller);
}

function after(before: Conversation, entry: ThreadEntry): Conversation {
  if (entry.t === 'handoff') return { ...before, view: crossingAt(entry, before) };
  const said = messagesOf(entry);
  return { view: [...before.view, ...said], read: [...before.read, ...said] };
}

/** Messages of agents and the user. An answer that the runtime wrote, for an earlier end of the turn, is none. */
function messagesOf(entry: ThreadEntry): readonly Message[] {
  if (entry.t !== 'message') return [];
  const { message, byRuntime, emptyResponse } = entry;
  return message.role === 'assistant' && (byRuntime || emptyResponse) ? [] : [message];
}

function crossingAt({ descriptor, summary }: Handoff, { view, read }: Conversation): readonly Message[] {
  const seen = summary
    ? [summaryMessage(summary.text, summary), ...view.slice(Math.max(0, view.length - summary.kept))]
    : view;
  return withLabels(crossing(filterFrom(descriptor), seen), [...read, ...seen]);
}
