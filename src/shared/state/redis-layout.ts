import type { Clock } from '../base/clock.ts';
import { isLifecycle } from '../contract/event.ts';
import type { LifecycleStream } from './lifecycle-stream.ts';
import type { Log } from '../base/log.ts';
import type { Keys, RedisConnection } from './connect.ts';
import type { OutgoingEvent } from './run/run-store.ts';

export interface RedisRunsOptions {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** Keys of different runs live on different nodes: no script may touch two runs, and live channels are sharded. */
  readonly cluster: boolean;
  readonly lifecycle: LifecycleStream;
  /** Events kept per run for replay, about. */
  readonly eventLogMax: number;
  /** Seconds that the events, and the record with its journal, are kept after the end of a run. */
  readonly eventLogTtlS: number;
  readonly resultTtlS: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** The keys of claim. */
export function scriptKeys({ keys, lifecycle }: RedisRunsOptions, runId: string): string[] {
  const own = [keys.run(runId), keys.journal(runId), keys.events(runId)];
  return [...own, lifecycle.keyOf(runId)];
}

/** The keys of commit: beside those of claim, what people decided lives as long as the run. */
export function commitKeys({ keys, lifecycle }: RedisRunsOptions, runId: string): string[] {
  const own = [keys.run(runId), keys.journal(runId), keys.events(runId), keys.decided(runId), keys.decisions(runId)];
  return [...own, lifecycle.keyOf(runId)];
}

/** Where claim and commit put events: log length, live channel, firehose channel, publish command. */
export function eventTargets({ keys, cluster, eventLogMax }: RedisRunsOptions, runId: string): (string | number)[] {
  return [eventLogMax, keys.live(runId), keys.firehose, publishCommand(cluster)];
}

export function publishCommand(cluster: boolean): string {
  return cluster ? 'SPUBLISH' : 'PUBLISH';
}

/** In a Cluster: has lifecycle events that a script wrote to the run told. Nobody waits for it; what fails is told later. */
export function tellLifecycle({ lifecycle }: RedisRunsOptions, runId: string, events: readonly OutgoingEvent[]): void {
  if (events.some(({ type }) => isLifecycle(type))) void lifecycle.tell(runId);
}
