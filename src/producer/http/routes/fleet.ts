import type { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { eventSchema } from '../../../shared/contract/event.ts';
import { withoutWords } from '../../../shared/contract/provider-report.ts';
import { fleetView } from '../../../shared/contract/report/fleet.ts';
import { judged } from '../../client/diagnose/checks.ts';
import { diagnosisView, ownPartOf } from '../../client/diagnose/view.ts';
import type { App, Services } from '../app.ts';
import { liveOnly, formatFor, sendStream } from '../event-stream.ts';
import { errors, route } from '../openapi.ts';

const fleetRoute = route('read', {
  operationId: 'getFleet',
  summary: 'Read what the fleet does',
  description:
    'Jobs by queue and state with the live workers of each, workers with the own runs on them, the model providers that workers report, what of their limits is in use, and breakers. What a provider wrote into an error is only shown with the scope `admin`.',
  response: {
    200: fleetView,
    ...errors,
  },
});

const doctorRoute = route('admin', {
  operationId: 'diagnose',
  summary: 'Read the facts that `millrace doctor` judges',
  description:
    'Redis, durability, queues, workers, what runs wait for, and what `doctor` says about it all. The fleet is shown as a whole; of runs, threads and accounts only those of the key’s tenant.',
  response: { 200: diagnosisView, ...errors },
});

const eventStream = {
  description: 'The events of all runs of the tenant from now on.',
  content: { 'text/event-stream': { schema: eventSchema }, 'application/x-ndjson': { schema: eventSchema } },
};

const firehoseSchema = {
  operationId: 'followRuns',
  summary: 'Follow all runs',
  description:
    'Every event of the tenant’s runs from now on, without deltas, as server-sent events, or one a line with `Accept: application/x-ndjson`. Live only: the events have no `id`, and what comes while a client is away is not sent again; the log of a run has it (`GET /v1/runs/{id}/events`). A comment (NDJSON: an empty line) every 15 seconds keeps it open.',
  response: { 200: eventStream, ...errors },
};

/** What is about no single run. */
export function fleetRoutes(app: App, services: Services): void {
  app.get('/v1/fleet', fleetRoute, async ({ mill, rights }) => {
    const fleet = await mill.fleet();
    return {
      ...fleet,
      providers: fleet.providers.map((report) => (rights === 'operator' ? { ...report } : withoutWords(report))),
    };
  });
  app.get('/v1/doctor', doctorRoute, async ({ mill, tenant }) => {
    return judged(ownPartOf(await mill.diagnose(), tenant)) as z.output<typeof diagnosisView>;
  });
  app.get(
    '/v1/events',
    { schema: firehoseSchema, config: { access: 'read', waits: true } },
    async ({ mill, headers }, reply) => {
      using answer = services.openAnswers.wait(reply.raw);
      const events = mill.firehose({ signal: answer.signal })[Symbol.asyncIterator]();
      // Redis has to be there, and nothing else.
      const look = async () => {
        const problem = await mill.writeProblem();
        if (problem) throw new RunError('queue_unavailable', problem.reason);
      };
      await sendStream(events, { framing: liveOnly(formatFor(headers.accept)), look }, reply, services);
    },
  );
}
