import type { RunEvent } from '../../../shared/contract/event.ts';
import type { ClientCore, TenantClient } from '../client-core.ts';
import { stoppable, untilStopped } from '../stop-signal.ts';

/** Events that a slow listener may fall behind. Beyond it the oldest are lost: the firehose is live only. */
const capacity = 5_000;
const rememberedRuns = 10_000;

/** All events of a tenant's runs from now on, without text deltas. */
export function followAll(signal: AbortSignal | undefined, client: TenantClient): AsyncIterable<RunEvent> {
  return stoppable([signal, client.core.closing], (stop) => follow(client, stop));
}

async function* follow({ tenant, core }: TenantClient, stop: AbortSignal): AsyncGenerator<RunEvent, void, undefined> {
  const owners = new Owners(core);
  let waiting: RunEvent[] = [];
  let wake = () => {};
  using subscription = core.hub.subscribe(core.keys.firehose, {
    onEvents(events) {
      waiting.push(...events);
      if (waiting.length > capacity) waiting = waiting.slice(-capacity);
      wake();
    },
    onSilence() {},
  });
  await untilStopped(subscription.ready, stop);
  while (!stop.aborted) {
    if (waiting.length === 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      await untilStopped(promise, stop);
    }
    const events = waiting;
    waiting = [];
    await owners.learn(events, stop);
    for (const event of events) if (!stop.aborted && owners.of(event) === tenant) yield event;
  }
}

/** Whose run an event belongs to. The channel carries those of all tenants and events do not name their tenant. */
class Owners {
  readonly #core: ClientCore;
  readonly #tenants = new Map<string, string>();

  constructor(core: ClientCore) {
    this.#core = core;
  }

  of(event: RunEvent): string | undefined {
    return this.#tenants.get(event.runId);
  }

  /** Looks up the runs that are new here. Events of a run whose record is gone are dropped. */
  async learn(events: readonly RunEvent[], stop: AbortSignal): Promise<void> {
    const runIds = [...new Set(events.map((event) => event.runId))].filter((runId) => !this.#tenants.has(runId));
    if (runIds.length === 0) return;
    const { keys } = this.#core;
    const found = await this.#core.patiently(
      () => this.#core.reach((redis) => Promise.all(runIds.map((runId) => redis.hget(keys.run(runId), 'tenant')))),
      stop,
    );
    for (const [index, runId] of runIds.entries()) this.#remember(runId, found[index]);
  }

  #remember(runId: string, tenant: string | null | undefined): void {
    if (!tenant) return;
    this.#tenants.set(runId, tenant);
    const [oldest] = this.#tenants.keys();
    if (oldest !== undefined && this.#tenants.size > rememberedRuns) this.#tenants.delete(oldest);
  }
}
