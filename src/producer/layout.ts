import { eventVersion } from '../shared/event.ts';
import type { RedisConnection } from '../shared/redis.ts';
import type { RunRecord } from '../shared/run.ts';
import type { ScriptEvent } from './events.ts';
import type { Link } from './link.ts';

/** The keys of the scripts for one run. The lifecycle stream belongs to no run, so in a Cluster no script can reach it. */
export function scriptKeys({ keys, cluster }: Link, runId: string): string[] {
  const own = [keys.run(runId), keys.journal(runId), keys.events(runId), keys.decided(runId), keys.decisions(runId)];
  return cluster ? own : [...own, keys.lifecycle];
}

/** Where scripts put events: log length, live channel, firehose channel, publish command. */
export function eventTargets(link: Link, runId: string): (string | number)[] {
  const { keys, settings } = link;
  return [settings.eventLogMax, keys.live(runId), keys.firehose, publishCommand(link)];
}

export function publishCommand({ cluster }: Link): 'PUBLISH' | 'SPUBLISH' {
  return cluster ? 'SPUBLISH' : 'PUBLISH';
}

/** In a Cluster: adds lifecycle events to their stream after the script that wrote them. Elsewhere the script did it. */
export async function addLifecycle(
  link: Link,
  redis: RedisConnection,
  events: readonly ScriptEvent[],
  lastSequence: number,
): Promise<void> {
  if (!link.cluster) return;
  for (const [index, event] of events.entries()) {
    if (!event.lifecycle) continue;
    const number = lastSequence - events.length + index + 1;
    const json = `{"v":${eventVersion},"sequenceNumber":${number},${event.flagged.slice(2)}`;
    await redis.xadd(link.keys.lifecycle, 'MAXLEN', '~', 100_000, '*', 'e', json);
  }
}

/** A result that can be asked for again with its execution id stays at least a day. */
export function retentionS({ settings }: Link, { request }: RunRecord): number {
  return request.executionId === undefined ? settings.resultTtlS : Math.max(settings.resultTtlS, 86_400);
}
