import { defined } from '../../../shared/base/collections.ts';
import type { CompactionSource } from '../../../shared/contract/event.ts';
import { RunError } from '../../../shared/base/errors.ts';
import type { Attempt } from '../../../shared/contract/journal/journal.ts';
import type { Message } from '../../../shared/contract/message.ts';
import { summaryMessageOf } from '../../../shared/contract/thread/summary-message.ts';
import { labelsOfRun, readBy } from '../../guards/flow/run-labels.ts';
import { promptTokensOf } from '../../llm/cost.ts';
import { withFiles } from '../shown-files.ts';
import { bodyStart, cutOf, nextPart, summarise, type Part } from './summarise.ts';
import { type CompactionAnswer, type CompactionSkip, thresholdOf, type CompactionPolicy } from './policy.ts';
import { recordEntry, type Turn } from '../turn-ports.ts';
import { positionOf } from '../../../shared/contract/journal/conversation.ts';
import { buildRequest } from '../request.ts';
import type { Compaction, TurnState } from '../../../shared/contract/journal/turn-state.ts';
import { clip } from '../../../shared/base/text.ts';
import { within } from '../../../shared/base/deadline.ts';

/** After a summary that could not be made, so many steps go on without trying again. */
const restSteps = 3;
/** What leaves the conversation with a summary that is already there has to be worth another one: a part of the threshold. */
const worthShare = 0.05;

/** The model call that is about to be made. */
export interface ComingCall {
  readonly step: number;
  readonly model: string;
  /** Absent: the first provider that serves it. */
  readonly provider?: string | undefined;
}

interface Compacting {
  readonly turn: Turn;
  readonly policy: CompactionPolicy;
  readonly coming: ComingCall;
  readonly source: CompactionSource;
}

type Skipped = Extract<CompactionAnswer, { compacted: false }>;

/**
 * Before a step's model call: replaces older messages by a summary when the request is longer than its model takes, or
 * when a caller asked for that: a program of this process, or the request of the run. When the summary fails, the turn goes on with what it has.
 */
export async function compactBefore(turn: Turn, coming: ComingCall): Promise<void> {
  const { compaction: policy } = turn.deps;
  if (!policy) return;
  await concludeIfDue(turn, policy);
  const { requests } = policy;
  if (requests?.isAsked) {
    const answer = await compact({ turn, policy, coming, source: 'manual' });
    return requests.answer(answer);
  }
  // A worker that continues the run finds in the journal that it was done.
  if (policy.compactsFirst && coming.step === 1 && !turn.growing.state.compaction) {
    await compact({ turn, policy, coming, source: 'manual' });
    return;
  }
  if (coming.step < turn.restsUntilStep) return;
  if (requestTokens(turn, coming) <= thresholdFor(policy, coming)) return;
  await compact({ turn, policy, coming, source: 'auto-trigger' });
}

/**
 * After a provider has refused the request of a step for its length: keeps less. Once in a step, also where another
 * worker goes on with it. True: there is a shorter request now.
 */
export async function compactRefused(turn: Turn, coming: ComingCall): Promise<boolean> {
  const { compaction: policy } = turn.deps;
  const last = turn.growing.state.compaction;
  if (!policy || (last?.step === coming.step && last.source === 'pre-step')) return false;
  return (await compact({ turn, policy, coming, source: 'pre-step' })).compacted;
}

/** Why nothing of this conversation can be summarised, even on request; undefined when something can. */
export function refusalOf({ messages }: TurnState, policy: CompactionPolicy): CompactionSkip | undefined {
  if (policy.secret || messages.some(isSecret)) return 'sensitivity-gated';
  return cutOf(messages, policy.keepTurns, () => true) === undefined ? 'nothing-to-trim' : undefined;
}

function isSecret(message: Message): boolean {
  return (message.role === 'tool' || message.role === 'user') && message.sensitivity === 'secret';
}

async function compact(compacting: Compacting): Promise<CompactionAnswer> {
  const { turn, policy, coming } = compacting;
  const { state } = turn.growing;
  const cut = cutFor(compacting);
  if (typeof cut === 'object') return cut;
  const beforeTokens = requestTokens(turn, coming);
  let made: Compaction | undefined;
  for (let left = cut; left > bodyStart(state.messages);) {
    const part = nextPart(state.messages, left, policy);
    if (!(await replacePart(compacting, part))) break;
    made = state.compaction;
    // The summary stands where the part stood.
    left -= part.count - 1;
  }
  await concludeIfDue(turn, policy);
  if (!made) return { compacted: false, reason: 'summary-failed' };
  policy.report('compacted');
  return { compacted: true, beforeTokens, afterTokens: made.afterTokens, summaryTokens: made.summaryTokens };
}

/** Where what stays begins, or why nothing is done. */
function cutFor({ turn, policy, coming, source }: Compacting): number | Skipped {
  const { messages } = turn.growing.state;
  if (policy.secret || messages.some(isSecret)) return skipped(policy, 'sensitivity-gated');
  const whole = requestTokens(turn, coming);
  const threshold = thresholdFor(policy, coming);
  const emergency = source === 'pre-step';
  // Where a provider has refused the length, what is known of its window is wrong.
  const most = emergency ? Math.min(threshold, whole / 2) : threshold;
  const without = (from: number) => whole - tokensOf(messages.slice(0, from)) + policy.summaryMaxTokens;
  const keep = emergency ? policy.emergencyKeepTurns : policy.keepTurns;
  const cut = cutOf(messages, keep, (from) => without(from) <= most);
  if (cut === undefined) return skipped(policy, 'nothing-to-trim');
  const start = bodyStart(messages);
  const isWorth = start === 0 || tokensOf(messages.slice(start, cut)) >= worthShare * threshold;
  return isWorth || source !== 'auto-trigger' ? cut : skipped(policy, 'nothing-to-trim');
}

function skipped(policy: CompactionPolicy, reason: 'sensitivity-gated' | 'nothing-to-trim'): Skipped {
  policy.report(reason === 'nothing-to-trim' ? 'nothing_to_trim' : 'sensitivity_gated');
  return { compacted: false, reason };
}

/** Has a part summarised, and puts the summary in its place. False: there is none, and all is as it was. */
async function replacePart(compacting: Compacting, part: Part): Promise<boolean> {
  const { turn, policy, coming, source } = compacting;
  const { deps, growing } = turn;
  const { state } = growing;
  const { step } = coming;
  const startedMs = deps.clock.monotonic();
  const attempts: Attempt[] = [];
  const summary = await summarise(turn, policy, part, step, attempts).catch((cause: unknown) => {
    turn.signal.throwIfAborted();
    policy.report('failed', cause);
    return undefined;
  });
  turn.signal.throwIfAborted();
  const replaced = positionOf(state, part.count);
  const { sensitivity } = part;
  const flow = labelsOfRun(readBy(state), [turn.spec.system]).of(summary ?? '');
  const content = defined({ summary: summary ?? '', replaced, sensitivity, flow });
  const summaryTokens = tokensOf([summaryMessageOf(state.initial, content)]);
  const beforeTokens = requestTokens(turn, coming);
  const afterTokens = Math.max(0, beforeTokens - tokensOf(state.messages.slice(0, part.count)) + summaryTokens);
  if (summary === undefined || afterTokens >= beforeTokens) {
    if (summary !== undefined) policy.report('failed', new RunError('internal', 'the summary is no shorter'));
    turn.restsUntilStep = step + 1 + restSteps;
    if (attempts.length > 0) await recordEntry(turn, { t: 'attempted', step, attempts });
    return false;
  }
  // A part before this one, which was not emitted yet.
  if (state.compaction?.hooksDue) emitCompaction(turn, state.compaction, 0);
  const durationMs = Math.max(0, Math.round(deps.clock.monotonic() - startedMs));
  const figures = { source, beforeTokens, afterTokens, summaryTokens, durationMs };
  const hooksDue = policy.hooks.length > 0 ? true : undefined;
  if (!hooksDue) emitCompaction(turn, figures, 0);
  await recordEntry(turn, defined({ t: 'compacted', step, ...figures, ...content, attempts, hooksDue }));
  return true;
}

function thresholdFor(policy: CompactionPolicy, { model, provider }: ComingCall): number {
  return thresholdOf(policy.contextWindowOf(model, provider));
}

function requestTokens({ spec, deps, growing: { state } }: Turn, { step }: ComingCall): number {
  const tools = deps.tools.advertised(state.promoted, state.loop.withdrawn);
  return promptTokensOf(buildRequest(spec, state, tools, deps.requestId(step)));
}

function tokensOf(messages: readonly Message[]): number {
  return promptTokensOf({ messages: withFiles(messages) });
}

const timeoutMs = 10_000;
const maxPinnedChars = 32_000;

/**
 * Asks the hooks about the last compaction, emits it, and records the context that they pin; also where the worker of that compaction
 * died before it came to that.
 */
async function concludeIfDue(turn: Turn, policy: CompactionPolicy): Promise<void> {
  const { compaction, messages } = turn.growing.state;
  if (!compaction?.hooksDue) return;
  const { step: stepNumber, source, beforeTokens, afterTokens } = compaction;
  const view = { stepNumber, source, beforeTokens, afterTokens, messages };
  const asked = await Promise.all(
    policy.hooks.map(async (hook) => {
      const ended = await within(timeoutMs, () => hook(view), turn.deps.clock, turn.signal);
      const text = ended.kind === 'value' ? (ended.value ?? '') : undefined;
      if (typeof text === 'string') return clip(text, maxPinnedChars);
      if (ended.kind !== 'aborted') policy.report('hook_failed', ended.kind === 'threw' ? ended.error : undefined);
      return undefined;
    }),
  );
  turn.signal.throwIfAborted();
  const answered = asked.filter((text) => text !== undefined);
  emitCompaction(turn, compaction, answered.length);
  const texts = answered.filter((text) => text.trim() !== '');
  await recordEntry(turn, { t: 'context_pinned', step: stepNumber, texts });
}

/** `hooksFiredCount` is how many hooks did not fail. */
function emitCompaction(
  { deps }: Pick<Turn, 'deps'>,
  { beforeTokens, afterTokens, summaryTokens, durationMs, source }: Omit<Compaction, 'pinned' | 'hooksDue' | 'step'>,
  hooksFiredCount: number,
): void {
  const figures = { beforeTokens, afterTokens, summaryTokens, durationMs };
  deps.emit({ type: 'context.compacted', ...figures, hooksFiredCount, source });
}
