import type { Message, Sensitivity } from '../../../shared/contract/message.ts';
import type { FallbackChain } from '../../llm/fallback-chain.ts';
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
  /** The caller of the run asks for one before its first model call. */
  readonly compactsFirst?: boolean | undefined;
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

/** Why a compaction that was asked for was not made. */
export type CompactionSkip =
  | 'no-memory'
  | 'no-active-run'
  | 'nothing-to-trim'
  | 'sensitivity-gated'
  /** No summary could be made; the conversation is as it was. */
  | 'summary-failed';

/** What came of a compaction that was asked for. */
export type CompactionAnswer =
  | { readonly compacted: false; readonly reason: CompactionSkip }
  | ({ readonly compacted: true } & Pick<Compaction, 'beforeTokens' | 'afterTokens' | 'summaryTokens'>);

/** A turn, which can be asked at once why there is nothing to compact. */
interface RunningTurn {
  refusal(): CompactionSkip | undefined;
}

/** Where a caller asks the running turn of its process for a compaction. One turn at a time serves the requests. */
export class CompactionRequests {
  #turn: RunningTurn | undefined;
  #waiting: ((answer: CompactionAnswer) => void)[] = [];

  /** Resolves at once where there is nothing to do, else before the next model call, at the latest when the turn ends. */
  async ask(): Promise<CompactionAnswer> {
    if (!this.#turn) return { compacted: false, reason: 'no-active-run' };
    const reason = this.#turn.refusal();
    if (reason) return { compacted: false, reason };
    return await new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The turn serves until the result is disposed of; requests that still wait then get `no-active-run`. */
  serve(turn: RunningTurn): Disposable {
    this.#turn = turn;
    return {
      [Symbol.dispose]: () => {
        this.#turn = undefined;
        this.answer({ compacted: false, reason: 'no-active-run' });
      },
    };
  }

  get isAsked(): boolean {
    return this.#waiting.length > 0;
  }

  answer(answer: CompactionAnswer): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve(answer);
  }
}
