import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { api, type ApiError } from './api.ts';
import { Poll } from './poll.ts';

export interface Query<T> {
  /** The newest answer. Stays while a newer one is fetched, and when fetching it failed; goes when the path changes. */
  readonly data: T | undefined;
  /** Why the last attempt failed; undefined after a success. */
  readonly error: ApiError | undefined;
  /** Nothing to show yet. */
  readonly loading: boolean;
  /** Fetches now; resolves when the answer is there. */
  readonly reload: () => Promise<void>;
}

/**
 * Keeps the answer of a GET: fetched when the path changes, then every `everyMs` while the page is visible (absent:
 * once), and again with growing pauses after errors that may pass. `undefined` as path asks nothing.
 */
export function useQuery<T>(path: string | undefined, everyMs?: number): Query<T> {
  const [state, setState] = useState<{ path?: string; data?: T; error?: ApiError | undefined }>({});
  const poll = useRef<Poll>(undefined);
  useEffect(() => {
    if (path === undefined) return undefined;
    const leave = new AbortController();
    const show = (next: { data?: T; error: ApiError | undefined }) =>
      setState((before) => ({ path, ...(before.path === path && { data: before.data as T }), ...next }));
    const work = async () => {
      const data = await api<T>(path, { signal: leave.signal });
      if (!leave.signal.aborted) show({ data, error: undefined });
    };
    poll.current = new Poll({ work, onError: (error) => show({ error }), everyMs, leave: leave.signal });
    void poll.current.now();
    return () => leave.abort();
  }, [path, everyMs]);
  const reload = useCallback(async () => await poll.current?.now(), []);
  const isCurrent = state.path === path;
  const data = isCurrent ? state.data : undefined;
  const error = isCurrent ? state.error : undefined;
  return { data, error, loading: path !== undefined && data === undefined && error === undefined, reload };
}
