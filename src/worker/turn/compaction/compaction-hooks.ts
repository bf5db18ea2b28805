import type { JournalEntry } from '../../../shared/contract/journal/journal.ts';
import { clip } from '../../../shared/base/text.ts';
import { within } from '../../../shared/base/deadline.ts';
import type { Turn } from '../contract.ts';
import type { CompactionView, CompactionPolicy, PostCompactionHook } from './policy.ts';
import type { Compaction } from '../../../shared/contract/journal/turn-state.ts';

const timeoutMs = 10_000;
const maxPinnedChars = 32_000;

/** Asks the hooks about the last compaction, emits it, and records the context that they pin. */
export async function concludeCompaction(turn: Turn, policy: CompactionPolicy, compaction: Compaction): Promise<void> {
  const { deps, growing } = turn;
  const { step: stepNumber, source, beforeTokens, afterTokens } = compaction;
  const view = { stepNumber, source, beforeTokens, afterTokens, messages: growing.state.messages };
  const asked = await Promise.all(policy.hooks.map((hook) => ask(hook, view, turn, policy)));
  turn.signal.throwIfAborted();
  const answered = asked.filter((text) => text !== undefined);
  emitCompaction(turn, compaction, answered.length);
  const entry: JournalEntry = {
    v: 1,
    t: 'context_pinned',
    step: stepNumber,
    texts: answered.filter((text) => text.trim() !== ''),
  };
  growing.add(entry);
  await deps.record([entry]);
}

/** `hooksFiredCount` is how many hooks did not fail. */
export function emitCompaction(
  { deps }: Pick<Turn, 'deps'>,
  { beforeTokens, afterTokens, summaryTokens, durationMs, source }: Omit<Compaction, 'pinned' | 'hooksDue' | 'step'>,
  hooksFiredCount: number,
): void {
  deps.emit({
    type: 'context.compacted',
    beforeTokens,
    afterTokens,
    summaryTokens,
    durationMs,
    hooksFiredCount,
    source,
  });
}

/** Undefined for a hook that failed. */
async function ask(
  hook: PostCompactionHook,
  view: CompactionView,
  { deps, signal }: Turn,
  policy: CompactionPolicy,
): Promise<string | undefined> {
  const ended = await within(timeoutMs, () => hook(view), deps.clock, signal);
  const text = ended.kind === 'value' ? (ended.value ?? '') : undefined;
  if (typeof text === 'string') return clip(text, maxPinnedChars);
  if (ended.kind !== 'aborted') policy.report('hook_failed', ended.kind === 'threw' ? ended.error : undefined);
  return undefined;
}
