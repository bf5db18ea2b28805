import { providerTrouble, type ProviderReport } from '../../../shared/contract/provider-report.ts';
import type { FleetView, FleetWorker, ProviderLimit } from '../../../shared/contract/report/fleet.ts';
import { limitersInUse } from '../../../shared/state/limits/rate/limiters-in-use.ts';
import { reach, type Reached, type TenantClient } from '../client-core.ts';
import { depths, liveWorkers, type LiveWorker } from './diagnose.ts';
import { breakersOf } from './wait-facts.ts';

/** What there is to do in the fleet, who does it, and what holds it up. Of the runs on workers those of the tenant. */
export async function readFleet(client: TenantClient): Promise<FleetView> {
  return await reach(client, async (at) => {
    const { redis, core } = at;
    const workers = await liveWorkers(at);
    const [queues, inUse, breakers, own] = await Promise.all([
      depths(workers, at),
      limitersInUse({ redis, keys: core.keys }),
      breakersOf(at),
      Promise.all(workers.map((worker) => ownPartOfWorker(worker, at))),
    ]);
    const limits = inUse.map(({ limiter, ...use }): ProviderLimit => ({
      model: limiter.slice(limiter.indexOf(':') + 1),
      ...use,
    }));
    return { queues, providers: [...providersOf(workers)], workers: own, limits, breakers: [...breakers] };
  });
}

/** The providers of all live workers, each once: of a provider that some worker has trouble with, what that worker reports. */
export function providersOf(workers: readonly Pick<LiveWorker, 'providers'>[]): readonly ProviderReport[] {
  const byId = Map.groupBy(
    workers.flatMap(({ providers }) => providers),
    ({ id }) => id,
  );
  return [...byId.values()].flatMap((reports) => reports.find(providerTrouble) ?? reports[0] ?? []);
}

/** As `providersOf`, of all live workers. */
export async function fleetProviders(client: TenantClient): Promise<readonly ProviderReport[]> {
  return providersOf(await reach(client, liveWorkers));
}

async function ownPartOfWorker(worker: LiveWorker, { core, redis, tenant }: Reached): Promise<FleetWorker> {
  const { providers: _, runs, queues, ...facts } = worker;
  const found = await Promise.all(runs.map(({ runId }) => redis.hmget(core.keys.run(runId), 'tenant', 'agent')));
  const own = runs.flatMap((run, i) => {
    const [of, agent] = found[i] ?? [];
    return of === tenant && agent ? [{ ...run, agent }] : [];
  });
  return { ...facts, queues: [...queues], runs: own };
}
