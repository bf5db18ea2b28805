import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { RunView } from '../../../../shared/contract/run.ts';
import { api, ApiError, withQuery } from '../../api.ts';
import { LiveList, type RunsPage, type RunsSource, type ShownRuns } from './live-list.ts';

const pageRuns = 100;

type RunsQuery = Readonly<Record<string, string | undefined>>;

export interface RunList extends ShownRuns {
  readonly loading: boolean;
  readonly loadMore: () => void;
  readonly reload: () => Promise<void>;
}

/**
 * The runs that a query fits, newest first: pages are added at the end as one scrolls, and the newest page is asked for
 * again and again, so new runs come in at the top and states change where they stand.
 */
export function useRunList(query: RunsQuery): RunList {
  const path = withQuery('/v1/runs', query);
  const [shown, show] = useState<ShownRuns & { readonly path: string }>();
  const list = useRef<LiveList>(undefined);
  useEffect(() => {
    const leave = new AbortController();
    const live = new LiveList(runsOf(query), (next) => show({ ...next, path }), leave.signal);
    list.current = live;
    void live.refresh();
    return () => leave.abort();
  }, [path]);
  const loadMore = useCallback(() => void list.current?.loadMore(), []);
  const reload = useCallback(async () => await list.current?.refresh(), []);
  const { runs, error, more } = shown?.path === path ? shown : nothing;
  return { runs, error, more, loading: shown?.path !== path, loadMore, reload };
}

const nothing: ShownRuns = { runs: [], error: undefined, more: false };

function runsOf(query: RunsQuery): RunsSource {
  return {
    page: async ({ cursor, after = query['after'] }, leave) =>
      await api<RunsPage>(withQuery('/v1/runs', { ...query, after, limit: pageRuns, cursor }), { signal: leave }),
    async run(runId, leave) {
      try {
        return await api<RunView>(`/v1/runs/${runId}`, { signal: leave });
      } catch (error) {
        if (error instanceof ApiError && !error.retryable) return undefined;
        throw error;
      }
    },
  };
}
