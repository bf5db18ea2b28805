import { withQuery } from '../../api.ts';
import { useQuery } from '../../query.ts';
import { formatCount } from '../../ui/money.tsx';

interface Counts {
  readonly total: number;
  readonly complete: boolean;
}

/** How many runs a thread has. Undefined: it is not known yet, or not exactly. */
export function useRunCount(thread: string | undefined): number | undefined {
  const path = withQuery('/v1/runs', { thread, limit: 1, counts: true });
  const { data } = useQuery<{ counts: Counts }>(thread === undefined ? undefined : path);
  return data?.counts.complete ? data.counts.total : undefined;
}

/** `all of its 3 runs` */
export function runsText(count: number | undefined): string {
  if (count === undefined) return 'all of its runs';
  return count === 1 ? 'its one run' : `all of its ${formatCount(count)} runs`;
}
