import { RunError } from '../base/errors.ts';

/** What the record of a run says about its time. */
interface Timed {
  readonly createdAt: string;
  readonly deadlineAt?: string | undefined;
  readonly request: { readonly deadlineMs?: number | undefined };
}

interface Startable extends Timed {
  /** 0: no worker has begun it. */
  readonly epoch: number;
  readonly startBy?: string | undefined;
  readonly request: Timed['request'] & {
    readonly delayMs?: number | undefined;
    readonly queueTtlMs?: number | undefined;
  };
}

/**
 * When a run is to end whatever it does or waits for, in milliseconds since the epoch: so long after its acceptance as its
 * request says, or at the time that the record names. Undefined: it may take as long as it takes.
 */
export function deadlineOf({ deadlineAt, createdAt, request }: Timed): number | undefined {
  if (deadlineAt !== undefined) return Date.parse(deadlineAt);
  return request.deadlineMs === undefined ? undefined : Date.parse(createdAt) + request.deadlineMs;
}

/** When a worker has to have begun the run; undefined once one has, and where it may wait as long as it takes. */
export function startByOf({ epoch, startBy, createdAt, request }: Startable): number | undefined {
  if (epoch > 0) return undefined;
  if (startBy !== undefined) return Date.parse(startBy);
  const { queueTtlMs, delayMs = 0 } = request;
  return queueTtlMs === undefined ? undefined : Date.parse(createdAt) + delayMs + queueTtlMs;
}

/** The earlier of both. */
export function nextDeadlineOf(run: Startable): number | undefined {
  const times = [deadlineOf(run), startByOf(run)].filter((time) => time !== undefined);
  return times.length === 0 ? undefined : Math.min(...times);
}

export function queueExpired(queue: string, atMs: number): RunError {
  return new RunError(
    'queue_expired',
    `no worker of queue ${queue} began the run before ${new Date(atMs).toISOString()}; redrive it once one is there`,
  );
}

export function deadlineExceeded(atMs: number): RunError {
  return new RunError('deadline_exceeded', `the run did not end before its deadline, ${new Date(atMs).toISOString()}`);
}
