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
  | {
      readonly compacted: true;
      readonly beforeTokens: number;
      readonly afterTokens: number;
      readonly summaryTokens: number;
    };

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
