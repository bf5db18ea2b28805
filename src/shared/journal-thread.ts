import type { JournalEntry, JournalEntryOf } from './journal.ts';
import { toolCallsOf, type AssistantMessage, type ToolMessage } from './message.ts';
import { threadVersion, type ThreadEntryOf, type ThreadMessage } from './thread.ts';

/** A step of a run while its journal is read. */
interface Step {
  readonly step: number;
  message: AssistantMessage;
  /** By place of the call. */
  readonly results: Map<number, ToolMessage>;
  /** Places of calls by what people were asked about them. */
  readonly asked: Map<string, number>;
}

/**
 * What a run has said and done by its journal, in the form in which threads keep it: the answers of its steps without the
 * reasoning in them, and the results that there are, in the order of the calls. What was sent back to a model for another
 * answer is left out, and so are entries that say nothing. `at` is given to all of them, because a journal has no times.
 */
export function entriesOfJournal(
  runId: string,
  journal: Iterable<JournalEntry>,
  at: string,
): ThreadEntryOf<'message'>[] {
  const steps: Step[] = [];
  for (const entry of journal) follow(steps, entry);
  return steps.flatMap(({ step, message, results }) => {
    const ordered = [...results].sort(([a], [b]) => a - b).map(([, result]) => result);
    const spoken = withoutThoughts(message);
    const said: ThreadMessage[] = spoken ? [spoken, ...ordered] : ordered;
    return said.map((each) => ({ v: threadVersion, t: 'message' as const, runId, at, step, message: each }));
  });
}

function follow(steps: Step[], entry: JournalEntry): void {
  const last = steps.at(-1);
  if (entry.t === 'answered')
    steps.push({ step: entry.step, message: entry.message, results: new Map(), asked: new Map() });
  else if (!last) return;
  else if (entry.t === 'called') last.results.set(entry.index, resultOf(entry));
  else if (entry.t === 'suspended') for (const { id, index } of entry.asks ?? []) last.asked.set(id, index);
  else if (entry.t === 'decided') decide(last, entry);
  else if (entry.t === 'retrying') for (const index of entry.calls) last.results.delete(index);
  else if (entry.t === 'repair') steps.pop();
}

function resultOf(entry: JournalEntryOf<'called'>): ToolMessage {
  const { toolCallId, toolName, content, errorKind, sensitivity, trust } = entry;
  return {
    role: 'tool',
    toolCallId,
    toolName,
    content,
    ...(errorKind && { isError: true }),
    ...(sensitivity && { sensitivity }),
    ...(trust && { trust }),
  };
}

/** A call that a person changed shows as it is made. */
function decide(step: Step, { decisions = [] }: JournalEntryOf<'decided'>): void {
  for (const decision of decisions) {
    const index = step.asked.get(decision.id);
    const updated = decision.kind === 'approval' ? decision.updatedArgs : undefined;
    if (index === undefined || !updated || step.results.has(index)) continue;
    const call = toolCallsOf(step.message)[index];
    const parts = step.message.parts.map((part) => (part === call ? { ...call, args: JSON.stringify(updated) } : part));
    step.message = { ...step.message, parts };
  }
}

/** Undefined when nothing but thoughts was in it. */
function withoutThoughts({ parts }: AssistantMessage): Extract<ThreadMessage, { role: 'assistant' }> | undefined {
  const spoken = parts.filter((part) => part.type !== 'reasoning');
  return spoken.length > 0 ? { role: 'assistant', parts: spoken } : undefined;
}
