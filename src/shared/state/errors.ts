import { RunError } from '../base/errors.ts';
import { orLate } from '../base/deadline.ts';

/** What a Redis that is reachable answers while it cannot take this command; the same command succeeds later. */
const temporary: ReadonlySet<string> = new Set([
  'OOM',
  'LOADING',
  'READONLY',
  'NOREPLICAS',
  'MISCONF',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'BUSY',
]);

/**
 * The error of a Redis command as a RunError with the original as cause: `queue_unavailable` when Redis cannot be
 * reached or refuses for now, `internal` for an answer that refuses the command itself. When a reply was lost or timed
 * out it is unknown whether the command took effect.
 */
export function redisError(thrown: unknown, doing: string): RunError {
  if (thrown instanceof RunError) return thrown;
  const isReply = thrown instanceof Error && thrown.name === 'ReplyError';
  if (isReply) return refusal(thrown.message, doing, thrown);
  return new RunError('queue_unavailable', `Redis cannot be reached: ${doing}`, { cause: thrown });
}

/** Did the store, or the one node of it that was asked, not answer or refuse for now? Others may answer. */
export function isUnavailable(error: unknown): error is RunError {
  return error instanceof RunError && error.code === 'queue_unavailable';
}

/** The same for an error answer that a script passed on as text. Its first word is Redis' own code. */
export function refusal(answer: string, doing: string, cause?: unknown): RunError {
  const [word = ''] = answer.split(' ', 1);
  const original = cause ?? new Error(answer);
  if (temporary.has(word))
    return new RunError('queue_unavailable', `Redis refuses for now (${word}): ${doing}`, { cause: original });
  if (word === 'NOPERM' || word === 'NOAUTH' || word === 'WRONGPASS')
    return new RunError('queue_unavailable', `${rightsProblem(answer)}: ${doing}`, {
      cause: original,
      retryable: false,
    });
  return new RunError('internal', `Redis answered ${word}: ${doing}`, { cause: original });
}

/** The right that the user in `REDIS_URL` lacks, from an answer of Redis. Names the command, no values. */
export function rightsProblem(answer: string): string {
  if (!answer.startsWith('NOPERM')) return 'Redis refuses the user or password of REDIS_URL';
  const command = /'([a-z|_-]{1,64})' command/i.exec(answer)?.[1];
  if (command === undefined) return 'the user of REDIS_URL may not reach all keys and channels (~* &*)';
  return `the user of REDIS_URL may not run ${command.toUpperCase()}: add +${command.toLowerCase()} to its ACL rule`;
}

/** The result of the work. Throws what {@link redisError} makes of an error of Redis. */
export async function named<T>(doing: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw redisError(error, doing);
  }
}

/**
 * A store each of whose methods throws what {@link redisError} makes of an error of Redis, named after the store and the method:
 * `threads.append`. Scripts name their errors themselves, and better.
 */
export function withNamedErrors<Store extends { [Name in keyof Store]: (...args: never[]) => Promise<unknown> }>(
  store: string,
  methods: Store,
): Store {
  const all = Object.entries<(...args: never[]) => Promise<unknown>>(methods);
  return Object.fromEntries(
    all.map(([name, method]) => [name, async (...args: never[]) => await named(`${store}.${name}`, method(...args))]),
  ) as Store;
}

/** A process that serves many runs waits no longer than this for the node of Redis that has one of them. */
const maxInlineWaitMs = 3_000;

/**
 * The answer of Redis. Throws `queue_unavailable` when there is none in time: the outcome of the work is unknown then, as with a
 * lost reply.
 */
export async function inTime<T>(work: Promise<T>, doing: string): Promise<T> {
  const late = () => {
    throw new RunError('queue_unavailable', `Redis did not answer within ${maxInlineWaitMs} ms: ${doing}`);
  };
  return await named(doing, orLate(maxInlineWaitMs, work, late));
}
