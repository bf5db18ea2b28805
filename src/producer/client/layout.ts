import { systemClock } from '../../shared/base/clock.ts';
import type { RedisConnection } from '../../shared/state/connect.ts';
import type { ThreadPlace } from '../../shared/state/thread/thread-place.ts';
import type { RunPlace } from '../../shared/state/run-place.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import { publishCommand } from '../../shared/state/script.ts';
import type { ClientCore } from './client-core.ts';

/** Where the runs of this client are. */
export function placeOf({ keys, cluster, lifecycle, settings }: ClientCore, redis: RedisConnection): RunPlace {
  return { redis, keys, cluster, lifecycle, eventLogMax: settings.eventLogMax };
}

/** Where the threads of this client are. */
export function threadPlaceOf({ keys, cluster }: ClientCore, redis: RedisConnection): ThreadPlace {
  return { redis, keys, cluster, clock: systemClock };
}

/** The keys of the scripts for one run. */
export function scriptKeys({ keys, lifecycle }: ClientCore, runId: string): string[] {
  const own = [keys.run(runId), keys.journal(runId), keys.events(runId), keys.decided(runId), keys.decisions(runId)];
  return [...own, lifecycle.keyOf(runId)];
}

/** Where scripts put events: log length, live channel, firehose channel, publish command. */
export function eventTargets(core: ClientCore, runId: string): (string | number)[] {
  const { keys, settings } = core;
  return [settings.eventLogMax, keys.live(runId), keys.firehose, publishCommand(core)];
}

/** A result that can be asked for again with its execution id stays at least a day. */
export function retentionS({ settings }: ClientCore, { request }: Pick<RunRecord, 'request'>): number {
  return request.executionId === undefined ? settings.resultTtlS : Math.max(settings.resultTtlS, 86_400);
}
