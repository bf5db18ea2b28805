import { useLocation } from 'preact-iso/router';
import { withQuery } from '../api.ts';

type Values = Readonly<Record<string, string>>;
type Change = Readonly<Record<string, string | undefined>>;

/**
 * The query of the URL as state: what is in it survives a reload and can be sent to another operator. A change replaces the entry
 * of the history (`push`: makes one), and removes what is set to undefined or to an empty text.
 */
export function useUrlState(): readonly [Values, (change: Change, push?: boolean) => void] {
  const { query, route } = useLocation();
  const set = (change: Change, push = false) => {
    // What was read when the page was drawn may be older than the URL.
    const now = Object.fromEntries(new URLSearchParams(location.search));
    route(withQuery(location.pathname, { ...now, ...change }), !push);
  };
  return [query, set];
}
