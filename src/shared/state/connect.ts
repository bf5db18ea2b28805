import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { orLate } from '../base/deadline.ts';
import { assertNever, RunError } from '../base/errors.ts';
import { parseRedisUrl, readTls } from '../base/redis-address.ts';
import { defined } from '../base/collections.ts';

/** A connection to one server, a Sentinel group or a Cluster. */
export type RedisConnection = Redis | Cluster;

/**
 * What a connection is for decides how it fails.
 *
 * - `command`: a caller waits for the answer. Fails at once while Redis is away instead of queueing.
 * - `work`: the commands of a worker. Waits and continues when Redis comes back.
 * - `blocking`: BullMQ's fetch loop. No socket timeout, because silence is normal.
 * - `subscribe`: channels only. Resubscribes by itself after a loss.
 */
export type ConnectionPurpose = 'command' | 'work' | 'blocking' | 'subscribe';

const reconnect = (times: number) => Math.min(50 * 2 ** Math.min(times, 6), 2_000) + Math.floor(Math.random() * 100);

type Settings = Omit<RedisOptions, 'replyMapping'>;

const base: Settings = {
  // A lost reply is re-sent after a reconnect; switching that off makes the promise hang for ever. Every script that
  // writes carries an operation id instead, so that a repeat changes nothing.
  autoResendUnfulfilledCommands: true,
  enableReadyCheck: true,
  connectTimeout: 5_000,
  retryStrategy: reconnect,
};

const byPurpose: Record<ConnectionPurpose, Settings> = {
  command: { enableOfflineQueue: false, maxRetriesPerRequest: 1, commandTimeout: 2_000, socketTimeout: 20_000 },
  work: { maxRetriesPerRequest: null, socketTimeout: 20_000 },
  blocking: { maxRetriesPerRequest: null },
  subscribe: { maxRetriesPerRequest: null, autoResubscribe: true },
};

/**
 * Opens a connection to what {@link parseRedisUrl} reads. Connection errors are reported to `onError` and never thrown from an event.
 */
export function connect(url: string, purpose: ConnectionPurpose, onError: (error: Error) => void): RedisConnection {
  const connection = open(url, { ...base, ...byPurpose[purpose] });
  connection.on('error', onError);
  if (purpose === 'subscribe' && connection instanceof Redis) reportAnswers(connection, onError);
  return connection;
}

/**
 * After a loss ioredis subscribes again by itself, and looks at none of the answers: a refusal would end a process that has no handler for
 * such rejections. It is reported like the loss of a connection; what is left open by closing is none. The caller of a command
 * still gets its rejection. In a Cluster ioredis looks at the answers.
 */
function reportAnswers(connection: Redis, onError: (error: Error) => void): void {
  const send = connection.sendCommand.bind(connection);
  connection.sendCommand = (...command) => {
    const answer = send(...command);
    if (answer instanceof Promise)
      answer.catch((error: Error) => {
        if (connection.status !== 'end') onError(error);
      });
    return answer;
  };
}

function open(url: string, options: Settings): RedisConnection {
  const { mode, nodes, username, password, sentinelUsername, sentinelPassword, masterName, db, ...rest } =
    parseRedisUrl(url);
  const tls = rest.tls && readTls(rest.tls);
  const auth: Settings = defined({ username, password, tls });
  switch (mode) {
    case 'single':
      return new Redis({ ...options, ...auth, ...nodes[0], db });
    case 'cluster': {
      const { retryStrategy: _, enableOfflineQueue = true, ...redisOptions } = { ...options, ...auth };
      return new Cluster([...nodes], {
        redisOptions,
        clusterRetryStrategy: reconnect,
        enableOfflineQueue,
        shardedSubscribers: true,
      });
    }
    case 'sentinel':
      return new Redis({
        ...options,
        ...auth,
        sentinels: [...nodes],
        name: masterName,
        db,
        ...defined({ sentinelUsername, sentinelPassword, sentinelTLS: tls }),
        enableTLSForSentinelMode: tls !== undefined,
      });
    default:
      return assertNever(mode);
  }
}

/** The passwords in the URL, as they are written there and as they are sent. Never throws. */
export function redisSecrets(url: string): readonly string[] {
  const ofRedis = /^[^/]*:\/\/(?:[^:@/]*):([^@/]*)@/.exec(url)?.[1];
  const ofSentinels = /[?&]sentinelPassword=([^&#]*)/.exec(url)?.[1];
  const forms = [ofRedis, ofSentinels].flatMap((secret) =>
    secret ? [secret, decoded(secret), decoded(secret.replaceAll('+', ' '))] : [],
  );
  return [...new Set(forms)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Is this URL a Cluster? Keys of different runs then live on different nodes and no script may touch both. */
export function isClusterUrl(url: string): boolean {
  return /^rediss?\+cluster:/.test(url);
}

/** Waits until the connection can take commands. Throws `queue_unavailable` after `timeoutMs`. */
export async function whenReady(connection: RedisConnection, timeoutMs: number): Promise<void> {
  if (connection.status === 'ready') return;
  const { promise, resolve } = Promise.withResolvers<void>();
  connection.once('ready', resolve);
  try {
    await orLate(timeoutMs, promise, () => {
      throw new RunError('queue_unavailable', `Redis did not answer within ${timeoutMs} ms`);
    });
  } finally {
    connection.off('ready', resolve);
  }
}

/** The masters of a Cluster as this connection knows them; elsewhere the connection itself. */
export function mastersOf(connection: RedisConnection): readonly RedisConnection[] {
  return connection instanceof Cluster ? connection.nodes('master') : [connection];
}

/** The master of each of a Cluster's slots, as this connection knows them; undefined for a slot that no node serves. Undefined elsewhere. */
export function slotOwners(connection: RedisConnection): readonly (string | undefined)[] | undefined {
  if (!(connection instanceof Cluster)) return undefined;
  return Array.from({ length: 16_384 }, (_, slot) => connection.slots[slot]?.[0]);
}
