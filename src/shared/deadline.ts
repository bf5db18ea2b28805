import { RunError } from './errors.ts';

/** What the record of a run says about its time. */
interface Timed {
  readonly createdAt: string;
  readonly deadlineAt?: string | undefined;
  readonly request: { readonly deadlineMs?: number | undefined };
}

/**
 * When a run is to end whatever it does or waits for, in milliseconds since the epoch: so long after its acceptance as its
 * request says, or at the time that the record names. Undefined: it may take as long as it takes.
 */
export function deadlineOf({ deadlineAt, createdAt, request }: Timed): number | undefined {
  if (deadlineAt !== undefined) return Date.parse(deadlineAt);
  return request.deadlineMs === undefined ? undefined : Date.parse(createdAt) + request.deadlineMs;
}

export function deadlineExceeded(atMs: number): RunError {
  return new RunError('deadline_exceeded', `the run did not end before its deadline, ${new Date(atMs).toISOString()}`);
}
