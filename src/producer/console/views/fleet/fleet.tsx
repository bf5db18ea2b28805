import type { FleetView as Fleet } from '../../../../shared/contract/report/fleet.ts';
import { useQuery } from '../../query.ts';
import { Loading, Problem } from '../../ui/states.tsx';
import { Charts } from './charts.tsx';
import { Checks, useDoctor, Verdict } from './doctor.tsx';
import { Breakers, Limits, Providers } from './providers.tsx';
import { Queues, Workers } from './workers.tsx';

const everyMs = 3_000;

/** What there is to do, who does it, what holds it up, and how it went. Moves on by itself. */
export function FleetView() {
  const { data, error, reload } = useQuery<Fleet>('/v1/fleet', everyMs);
  const doctor = useDoctor();
  return (
    <section class="stack" aria-labelledby="fleet-title">
      <h1 id="fleet-title">Fleet</h1>
      {error && !data && <Problem error={error} retry={reload} />}
      {!data && !error && <Loading what="Asking for the fleet" />}
      {data && (
        <>
          <Verdict fleet={data} doctor={doctor} />
          <Workers workers={data.workers} />
          <Queues queues={data.queues} />
        </>
      )}
      <Charts />
      {data && (
        <>
          <Limits limits={data.limits} />
          <Breakers breakers={data.breakers} />
          <Providers providers={data.providers} />
        </>
      )}
      <Checks doctor={doctor} />
    </section>
  );
}
