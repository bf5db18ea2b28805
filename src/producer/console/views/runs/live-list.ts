import type { RunView } from '../../../../shared/contract/run.ts';
import { asApiError, type ApiError } from '../../api.ts';
import { Poll, type PollPage } from '../../poll.ts';

const refreshMs = 2_500;
/** So many runs that have not ended are asked for by themselves, where the newest pages do not have them. */
const followedRuns = 20;
/** Pages of new runs that one refresh reads to reach what is known. With more of them the list begins anew. */
export const mostNewPages = 10;
/** Pages without any run that are read in search of one, before the reader is asked whether to go on. */
export const mostEmptyPages = 5;
/** A list that is left open begins anew when it has more. */
const mostRuns = 20_000;

/** Newest first. It may be short, even empty, and still have a cursor: no cursor means the end. */
export interface RunsPage {
  readonly runs: readonly RunView[];
  readonly cursor?: string | undefined;
}

/** Which page: what follows a cursor, and only runs created at this time or later. */
export interface Wanted {
  readonly cursor?: string | undefined;
  readonly after?: string | undefined;
}

/** What a list is read from. */
export interface RunsSource {
  readonly page: (wanted: Wanted, leave: AbortSignal) => Promise<RunsPage>;
  /** One run; undefined when it is gone. */
  readonly run: (runId: string, leave: AbortSignal) => Promise<RunView | undefined>;
}

export interface ShownRuns {
  readonly runs: readonly RunView[];
  readonly error: ApiError | undefined;
  /** There are older ones. */
  readonly more: boolean;
}

/** All that was loaded of one query: from the newest run down to a cursor, without a gap. */
export class LiveList {
  readonly #source: RunsSource;
  readonly #leave: AbortSignal;
  readonly #show: (shown: ShownRuns) => void;
  readonly #poll: Poll;
  /** By id. Another map when the list begins anew. */
  #runs = new Map<string, RunView>();
  #cursor: string | undefined;
  #isFirst = true;
  #isLoadingMore = false;
  /** Older ones were asked for, and reading them failed. */
  #owesMore = false;

  constructor(source: RunsSource, show: (shown: ShownRuns) => void, leave: AbortSignal, page?: PollPage) {
    this.#source = source;
    this.#leave = leave;
    this.#show = show;
    const onError = (error: ApiError) => this.#draw(error);
    this.#poll = new Poll({ work: () => this.#refresh(), onError, everyMs: refreshMs, leave, page });
  }

  /** Reads the newest runs, and what became of older ones that had not ended. Goes on doing so. */
  refresh(): Promise<void> {
    return this.#poll.now();
  }

  async loadMore(): Promise<void> {
    if (this.#cursor === undefined || this.#isLoadingMore) return;
    this.#isLoadingMore = true;
    this.#owesMore = false;
    try {
      await this.#readOlder();
      this.#draw(undefined);
    } catch (error) {
      this.#owesMore = true;
      this.#draw(asApiError(error));
    }
    this.#isLoadingMore = false;
  }

  async #refresh(): Promise<void> {
    const seeks = this.#isFirst;
    const newest = await this.#readNewest();
    await this.#followOlder(new Set(newest.map(({ runId }) => runId)));
    const isNoneFound = seeks && this.#runs.size === 0;
    if (isNoneFound || this.#owesMore) await this.loadMore();
    else this.#draw(undefined);
  }

  /** The runs from the newest down to those that are known. Where that is too far, what was known is left behind. */
  async #readNewest(): Promise<readonly RunView[]> {
    const known = this.#newest();
    const runs: RunView[] = [];
    let cursor: string | undefined;
    let reaches = false;
    for (let pages = 0; pages < mostNewPages && !reaches; pages++) {
      // Behind the first page nothing is looked at that is older than what is known, however few runs fit the query.
      const after = pages === 0 ? undefined : known?.createdAt;
      const page = await this.#source.page({ cursor, after }, this.#leave);
      runs.push(...page.runs);
      ({ cursor } = page);
      reaches = !known || cursor === undefined || page.runs.some((run) => newestFirst(run, known) >= 0);
    }
    if (this.#isFirst || !reaches || this.#runs.size > mostRuns) {
      this.#runs = new Map();
      this.#cursor = cursor;
      this.#isFirst = false;
    }
    this.#take(runs);
    return runs;
  }

  /** At least one older run, unless it is too far to the next. */
  async #readOlder(): Promise<void> {
    const list = this.#runs;
    for (let pages = 0; pages < mostEmptyPages && this.#cursor !== undefined; pages++) {
      const { runs, cursor } = await this.#source.page({ cursor: this.#cursor }, this.#leave);
      if (this.#runs !== list) return;
      this.#cursor = cursor;
      this.#take(runs);
      if (runs.length > 0) return;
    }
  }

  async #followOlder(newest: ReadonlySet<string>): Promise<void> {
    const open = [...this.#runs.values()].filter(({ runId, endedAt }) => endedAt === undefined && !newest.has(runId));
    const asked = open.slice(0, followedRuns).map(({ runId }) => this.#source.run(runId, this.#leave));
    // One that is gone stays as it was seen last.
    this.#take((await Promise.all(asked)).filter((run) => run !== undefined));
  }

  #newest(): RunView | undefined {
    return [...this.#runs.values()].reduce<RunView | undefined>(
      (newest, run) => (newest === undefined || newestFirst(run, newest) < 0 ? run : newest),
      undefined,
    );
  }

  #take(runs: readonly RunView[]): void {
    for (const run of runs) this.#runs.set(run.runId, run);
  }

  #draw(error: ApiError | undefined): void {
    if (this.#leave.aborted) return;
    const runs = [...this.#runs.values()].sort(newestFirst);
    this.#show({ runs, error, more: this.#cursor !== undefined });
  }
}

/** The order of the server. An id made of an execution id, as those of batches and threads, says nothing about the time. */
function newestFirst(a: RunView, b: RunView): number {
  if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? 1 : -1;
  return a.runId === b.runId ? 0 : a.runId < b.runId ? 1 : -1;
}
