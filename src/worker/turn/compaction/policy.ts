import type { Message, Sensitivity } from '../../../shared/contract/message.ts';
import type { FallbackChain } from '../../llm/fallback-chain.ts';
import type { CompactionRequests } from './compaction-requests.ts';
import type { Compaction } from '../../../shared/contract/journal/turn-state.ts';

/** Who writes summaries. */
export interface Summarizer {
  /** Of one model, which is asked once: where it fails, the conversation stays whole. */
  readonly chain: Pick<FallbackChain, 'run'>;
  /** Tokens that it takes. */
  readonly contextWindow: number;
  /** Absent: only public texts. */
  readonly accepts: readonly Sensitivity[] | undefined;
}

/** What a hook gets about the compaction that has just been made. */
export interface CompactionView extends Pick<Compaction, 'source' | 'beforeTokens' | 'afterTokens'> {
  /** Of the model call that comes next, from 1. */
  readonly stepNumber: number;
  /** The conversation from now on, for reading: the summary first. */
  readonly messages: readonly Message[];
}

/**
 * Asked after each compaction what the model has to read again. Its text is authored: it is at the end of the next
 * request, as a system message together with those of the other hooks; nothing returned adds nothing. Has ten seconds.
 * One that throws, is late or answers with something else than a text is left out, with a warning. Only what reaches the
 * journal before a crash is kept, so it may be asked twice.
 */
export type PostCompactionHook = (
  compaction: CompactionView,
) => string | null | undefined | void | Promise<string | null | undefined | void>;

/** What came of looking at a conversation that is too long, or that a caller wants shorter. */
export type CompactionOutcome = 'compacted' | 'failed' | 'nothing_to_trim' | 'sensitivity_gated' | 'hook_failed';

/** What of an agent's compaction depends on the models that there are. */
export type CompactionModels = Pick<CompactionPolicy, 'summarizer' | 'contextWindowOf'>;

/** What a turn needs to keep its conversation within what its models take. */
export interface CompactionPolicy {
  readonly keepTurns: number;
  readonly emergencyKeepTurns: number;
  readonly summaryMaxTokens: number;
  /** The run is about secrets: nothing of it is summarised. */
  readonly secret: boolean;
  readonly summarizer: Summarizer;
  /** Tokens that a model takes, prompt and answer together. */
  contextWindowOf(model: string, provider: string | undefined): number;
  readonly hooks: readonly PostCompactionHook[];
  /** Where a program of this process asks for compactions. */
  readonly requests?: CompactionRequests | undefined;
  /** Gets every outcome; for a log and metrics. Must not throw. */
  report(outcome: CompactionOutcome, cause?: unknown): void;
}

const outputReserve = 4_096;
const safetyReserve = 8_192;
const share = 0.85;
const leastShare = 0.25;

/**
 * Tokens of a request above which its conversation is compacted: 85 % of the window, and room for an answer and for
 * errors of the estimate. At least a quarter of the window, so that a small one is of any use.
 */
export function thresholdOf(contextWindow: number): number {
  const threshold = Math.min(Math.floor(share * contextWindow), contextWindow - outputReserve - safetyReserve);
  return Math.max(threshold, Math.floor(leastShare * contextWindow));
}
