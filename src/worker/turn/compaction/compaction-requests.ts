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

/** Somebody who can be asked at once why there is nothing to compact. */
interface Attendant {
  refusal(): CompactionSkip | undefined;
}

/** Where a program asks the turn that is going on in its process for a compaction. One turn at a time attends it. */
export class CompactionRequests {
  #attendant: Attendant | undefined;
  #waiting: ((answer: CompactionAnswer) => void)[] = [];

  /** Resolves at once where there is nothing to do, else before the next model call, at the latest when the turn ends. */
  async ask(): Promise<CompactionAnswer> {
    if (!this.#attendant) return { compacted: false, reason: 'no-active-run' };
    const reason = this.#attendant.refusal();
    if (reason) return { compacted: false, reason };
    return await new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The turn is there until the answer is disposed of; whoever still waits then is told that there is none. */
  attend(attendant: Attendant): Disposable {
    this.#attendant = attendant;
    return {
      [Symbol.dispose]: () => {
        this.#attendant = undefined;
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
