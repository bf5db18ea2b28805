import { RunError } from '../../../shared/base/errors.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import { taskActionOutcome, type LedgerRow } from '../../../shared/contract/orchestration/task.ts';

/** Where rows of tasks and runs are kept when these have ended. */
export interface LedgerRows {
  /** Keeps a row under its id. The same end twice is one row; another end throws `already_terminal`. */
  put(row: LedgerRow): Promise<void>;
  get(id: string): Promise<LedgerRow | undefined>;
}

/** Rows in this process, for tests and small callers. Nothing is ever dropped. */
export function createInMemoryLedgerRows(): LedgerRows & { all(): readonly LedgerRow[] } {
  const rows = new Map<string, LedgerRow>();
  return {
    async put(row) {
      const known = rows.get(row.id);
      if (!known) rows.set(row.id, Object.freeze({ ...row }));
      else if (known.status !== row.status) throw otherEnd(known, row.status);
    },
    get: async (id) => rows.get(id),
    all: () => [...rows.values()],
  };
}

type EndedStatus = Exclude<LedgerRow['status'], 'running'>;

/**
 * Adds up what a task or a run costs, from its events: `cost.updated`, and the costs of actions in `task.act`. All others are
 * ignored, so that a whole stream can be given to it.
 *
 * @example
 * const ledger = new RunLedger({ id: 'review-7' });
 * for await (const event of stream) ledger.observe(event);
 * ledger.complete('completed');
 * await ledger.save(rows);
 */
export class RunLedger {
  #row: LedgerRow;
  readonly #startedMs: number;
  readonly #now: () => number;

  /** `now`: milliseconds since the epoch. `goOn`: a row that was not completed, by the same id. */
  constructor({ id, taskId, now = Date.now, goOn }: RunLedgerOptions) {
    this.#now = now;
    const nowMs = now();
    this.#startedMs = nowMs - (goOn?.wallMs ?? 0);
    this.#row = goOn ?? { ...emptyRow, id, ...(taskId !== undefined && { taskId }), startedAt: isoTime(nowMs) };
  }

  observe(event: EventBody): void {
    const cost = costOf(event);
    if (!cost || this.#row.status !== 'running') return;
    this.#row = {
      ...this.#row,
      tokensIn: this.#row.tokensIn + cost.tokensIn,
      tokensOut: this.#row.tokensOut + cost.tokensOut,
      costMicrocents: this.#row.costMicrocents + cost.costMicrocents,
      llmCalls: this.#row.llmCalls + cost.llmCalls,
    };
  }

  /**
   * The end. The same end twice is one; another end throws `already_terminal`. `error` is a code, `wallMs` the time that was
   * worked: by default all since the row began.
   */
  complete(status: EndedStatus, { error, wallMs }: { readonly error?: string; readonly wallMs?: number } = {}): void {
    if (this.#row.status === status) return;
    if (this.#row.status !== 'running') throw otherEnd(this.#row, status);
    const nowMs = this.#now();
    const workedMs = wallMs ?? Math.max(0, nowMs - this.#startedMs);
    this.#row = {
      ...this.#row,
      status,
      wallMs: workedMs,
      completedAt: isoTime(nowMs),
      ...(error !== undefined && { error }),
    };
  }

  /** As things stand. `wallMs` is 0 until the end, or what it was when the row was gone on with. */
  row(): LedgerRow {
    return { ...this.#row };
  }

  /** Puts the row where rows are kept. Throws `validation` before the end. */
  async save(rows: LedgerRows): Promise<void> {
    if (this.#row.status === 'running')
      throw new RunError('validation', `the ledger row ${this.#row.id} cannot be kept before its end`);
    await rows.put(this.row());
  }
}

export interface RunLedgerOptions {
  readonly id: string;
  readonly taskId?: string;
  readonly now?: () => number;
  readonly goOn?: LedgerRow;
}

const emptyRow = { status: 'running', tokensIn: 0, tokensOut: 0, costMicrocents: 0, llmCalls: 0, wallMs: 0 } as const;

function otherEnd({ id, status }: LedgerRow, other: string): RunError {
  return new RunError('already_terminal', `the ledger row ${id} has ended as ${status} and cannot become ${other}`);
}

type Cost = Pick<LedgerRow, 'tokensIn' | 'tokensOut' | 'costMicrocents' | 'llmCalls'>;

function costOf(event: EventBody): Cost | undefined {
  switch (event.type) {
    case 'cost.updated': {
      const { inputTokens, cachedTokens = 0, cacheWriteTokens = 0, outputTokens: tokensOut, costMicrocents } = event;
      return { tokensIn: inputTokens + cachedTokens + cacheWriteTokens, tokensOut, costMicrocents, llmCalls: 1 };
    }
    case 'task.act': {
      const outcome = taskActionOutcome.safeParse(event.outcome).data;
      const costMicrocents = outcome?.ok ? (outcome.costMicrocents ?? 0) : 0;
      return { tokensIn: 0, tokensOut: 0, costMicrocents, llmCalls: 0 };
    }
    default:
      return undefined;
  }
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
