import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { RunView } from '../../../../shared/contract/run.ts';
import { api, ApiError, asApiError, retryPause, withQuery } from '../../api.ts';

const pageRuns = 100;
const refreshMs = 2_500;
/** So many runs that have not ended are asked for by themselves, where the newest page does not have them. */
const followedRuns = 20;

interface Page {
  readonly runs: readonly RunView[];
  readonly cursor?: string;
}

export interface RunList {
  readonly runs: readonly RunView[];
  readonly error: ApiError | undefined;
  readonly loading: boolean;
  /** There are older ones. */
  readonly more: boolean;
  readonly loadMore: () => void;
  readonly reload: () => Promise<void>;
}

/**
 * The runs that a query fits, newest first: pages are added at the end as one scrolls, and the newest page is asked for
 * again and again, so new runs come in at the top and states change where they stand.
 */
export function useRunList(query: Readonly<Record<string, string | undefined>>): RunList {
  const path = withQuery('/v1/runs', { ...query, limit: pageRuns });
  const [shown, show] = useState<Shown>(nothing(path));
  const list = useRef<LiveList>(undefined);
  useEffect(() => {
    const leave = new AbortController();
    const live = new LiveList(path, leave.signal, show);
    list.current = live;
    void live.refresh();
    return () => leave.abort();
  }, [path]);
  const loadMore = useCallback(() => void list.current?.loadMore(), []);
  const reload = useCallback(async () => await list.current?.refresh(), []);
  const { runs, error, loading, more } = shown.path === path ? shown : nothing(path);
  return { runs, error, loading, more, loadMore, reload };
}

interface Shown {
  readonly path: string;
  readonly runs: readonly RunView[];
  readonly error: ApiError | undefined;
  readonly loading: boolean;
  readonly more: boolean;
}

const nothing = (path: string): Shown => ({ path, runs: [], error: undefined, loading: true, more: false });

/** All that was loaded for one query. */
class LiveList {
  readonly #path: string;
  readonly #leave: AbortSignal;
  readonly #show: (shown: Shown) => void;
  /** By id, which is also their order: newer ids are greater. */
  readonly #runs = new Map<string, RunView>();
  #cursor: string | undefined;
  #isFirst = true;
  #isLoadingMore = false;
  #error: ApiError | undefined;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(path: string, leave: AbortSignal, show: (shown: Shown) => void) {
    this.#path = path;
    this.#leave = leave;
    this.#show = show;
    leave.addEventListener('abort', () => clearTimeout(this.#timer));
  }

  /** The newest page, and what became of older runs that had not ended. */
  async refresh(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#attempt(async () => {
      const page = await api<Page>(this.#path, { signal: this.#leave });
      this.#take(page);
      if (this.#isFirst) this.#cursor = page.cursor;
      this.#isFirst = false;
      await this.#followOlder(new Set(page.runs.map(({ runId }) => runId)));
    });
    if (this.#leave.aborted) return;
    const pauseMs = this.#error ? retryPause(this.#failures) : refreshMs;
    this.#timer = setTimeout(() => void this.#again(), pauseMs);
  }

  async loadMore(): Promise<void> {
    const cursor = this.#cursor;
    if (cursor === undefined || this.#isLoadingMore) return;
    this.#isLoadingMore = true;
    await this.#attempt(async () => {
      const page = await api<Page>(withQuery(this.#path, { cursor }), { signal: this.#leave });
      this.#cursor = page.cursor;
      this.#take(page);
    });
    this.#isLoadingMore = false;
  }

  async #again(): Promise<void> {
    if (!document.hidden) return await this.refresh();
    this.#timer = setTimeout(() => void this.#again(), refreshMs);
  }

  async #followOlder(newest: ReadonlySet<string>): Promise<void> {
    const open = [...this.#runs.values()].filter(({ runId, endedAt }) => endedAt === undefined && !newest.has(runId));
    const asked = open.slice(0, followedRuns).map(async ({ runId }) => await this.#readOne(runId));
    this.#take({ runs: (await Promise.all(asked)).flatMap((run) => (run ? [run] : [])) });
  }

  /** One that is gone stays as it was seen last. */
  async #readOne(runId: string): Promise<RunView | undefined> {
    try {
      return await api<RunView>(`/v1/runs/${runId}`, { signal: this.#leave });
    } catch (error) {
      if (error instanceof ApiError && !error.retryable) return undefined;
      throw error;
    }
  }

  #take({ runs }: Page): void {
    for (const run of runs) this.#runs.set(run.runId, run);
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.#error = undefined;
      this.#failures = 0;
    } catch (error) {
      if (this.#leave.aborted) return;
      this.#error = asApiError(error);
      this.#failures += 1;
    }
    if (this.#leave.aborted) return;
    const runs = [...this.#runs.values()].sort((a, b) => (a.runId < b.runId ? 1 : -1));
    const more = this.#cursor !== undefined;
    this.#show({ path: this.#path, runs, error: this.#error, loading: false, more });
  }
}
