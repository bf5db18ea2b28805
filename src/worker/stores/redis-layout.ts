import type { Clock } from '../../shared/clock.ts';
import { isLifecycle } from '../../shared/event.ts';
import type { Log } from '../../shared/log.ts';
import type { Keys, RedisConnection } from '../../shared/redis.ts';
import { redisError } from '../../shared/redis-error.ts';
import type { OutgoingEvent } from '../ports.ts';
import { numberedEvent } from './wire.ts';

export interface RedisRunsOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** Keys of different runs live on different nodes: no script may touch two runs, and live channels are sharded. */
  readonly cluster: boolean;
  /** Events kept per run for replay, about. */
  readonly eventLogMax: number;
  /** Seconds that the events, and the record with its journal, are kept after the end of a run. */
  readonly eventLogTtlS: number;
  readonly resultTtlS: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** The keys of claim. The lifecycle stream belongs to no run, so in a Cluster no script can reach it. */
export function scriptKeys({ keys, cluster }: RedisRunsOptions, runId: string): string[] {
  const own = [keys.run(runId), keys.journal(runId), keys.events(runId)];
  return cluster ? own : [...own, keys.lifecycle];
}

/** The keys of commit: beside those of claim, what people decided lives as long as the run. */
export function commitKeys({ keys, cluster }: RedisRunsOptions, runId: string): string[] {
  const own = [keys.run(runId), keys.journal(runId), keys.events(runId), keys.decided(runId), keys.decisions(runId)];
  return cluster ? own : [...own, keys.lifecycle];
}

/** Where claim and commit put events: log length, live channel, firehose channel, publish command. */
export function eventTargets({ keys, cluster, eventLogMax }: RedisRunsOptions, runId: string): (string | number)[] {
  return [eventLogMax, keys.live(runId), keys.firehose, publishCommand(cluster)];
}

export function publishCommand(cluster: boolean): string {
  return cluster ? 'SPUBLISH' : 'PUBLISH';
}

/**
 * In a Cluster: adds lifecycle events to their stream after the script that wrote them to the run. The write itself has
 * happened, so a failure here is only logged. Elsewhere the script has done it and this does nothing.
 */
export function addLifecycle(options: RedisRunsOptions, lastSequence: number, events: readonly OutgoingEvent[]): void {
  if (!options.cluster) return;
  const { redis, keys, log } = options;
  for (const [index, event] of events.entries()) {
    if (!isLifecycle(event.type)) continue;
    const json = numberedEvent(event, lastSequence - events.length + index + 1);
    redis.xadd(keys.lifecycle, 'MAXLEN', '~', 100_000, '*', 'e', json).catch((error: unknown) => {
      // The client's own error carries the arguments of the command, and with them what a model wrote.
      log.warn(
        { err: redisError(error, 'add of a lifecycle event'), runId: event.runId, type: event.type },
        'lifecycle event not added',
      );
    });
  }
}
