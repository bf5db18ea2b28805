import { acceptRun, acceptRuns } from './accept/accept.ts';
import type { Rights } from './accept/validate.ts';
import { listApprovals } from './approvals.ts';
import { readMedia, readProgress, writeProgress } from './artifacts.ts';
import { readAuditLog } from './audit/audit.ts';
import { RedisBatches } from './batches/redis-batches.ts';
import { RedisBudgets } from './budgets.ts';
import { cancelRun } from './cancel.ts';
import { findTurn, submitTurn } from './chat/open-turn.ts';
import { ClientCore, reach, type TenantClient } from './client-core.ts';
import { readCosts } from './costs.ts';
import { decideRun } from './decide.ts';
import { judged } from './diagnose/checks.ts';
import { diagnose, queueDepths } from './diagnose/diagnose.ts';
import { fleetProviders, readFleet } from './diagnose/fleet.ts';
import { erase, readErasureKey } from './erase/erase.ts';
import { RedisFiles } from './files/redis-files.ts';
import { findRunId } from './find-run.ts';
import { readFlowReport } from './flows/flow-report.ts';
import { listFlows } from './flows/flows.ts';
import { followAll } from './follow/firehose.ts';
import { followRun } from './follow/follow-run.ts';
import { listRuns } from './list-runs.ts';
import { RedisMcpPins } from './mcp-pins.ts';
import type { Operations } from './operations.ts';
import type { MillraceOptions } from './options.ts';
import { fromSurroundings } from './own-environment.ts';
import { exportRun } from './record/export.ts';
import { readSteps } from './record/steps.ts';
import { readOutcome, readView } from './record/view.ts';
import { cancelRuns, countRuns } from './many-runs.ts';
import { redriveRuns } from './redrive.ts';
import { readTenantSeries } from './series/series.ts';
import type { ClientFor } from '../batch/advance/consumer.ts';
import { checkRunId, checkTenant } from './accept/validate.ts';
import { RedisThreads } from './threads.ts';
import { WireStore } from './wire/wire-store.ts';

/** The client over Redis. Connects in the background. Throws `invalid_config` for a URL, prefix, tenant or file of a wrong form. */
export function openRedis(options: MillraceOptions): Operations {
  const tenant = checkTenant(options.tenant ?? 'default');
  const { redis, requestId } = options;
  const core = new ClientCore(
    redis === undefined ? { ...options, ...fromSurroundings(options) } : { ...options, redis },
  );
  return operationsOver(core, { tenant, requestId });
}

/** The same over connections that this client owns from now on. */
export function operationsOver(
  core: ClientCore,
  { tenant, requestId }: Pick<TenantClient, 'tenant' | 'requestId'>,
): Operations {
  return redisOperations({ tenant, rights: 'operator', requestId, core }, () => core.close());
}

/** For connections that there are already. `close` is called when the client is closed. */
export function redisOperations(client: TenantClient, close: () => Promise<void>): Operations {
  const { tenant, core } = client;
  const budgets = new RedisBudgets(client);
  const inNameOf: ClientFor = ({ requestId, ...owner }) =>
    redisOperations({ core, requestId, ...owner }, async () => {});
  return {
    tenant,
    whoami: async () => ({ tenant, rights: client.rights }),
    files: new RedisFiles(client),
    batches: new RedisBatches(client, budgets, inNameOf),
    budgets,
    mcpPins: new RedisMcpPins(client),
    threads: new RedisThreads(client),
    wire: new WireStore(client),
    accept: (request, signal) => acceptRun(request, client, signal),
    acceptMany: (requests) => acceptRuns(requests, client),
    submitTurn: (request, options) => submitTurn(request, options, client),
    findTurn: (executionId) => findTurn(executionId, client),
    get: async (runId) => await readView(checkRunId(runId), client),
    steps: (runId) => readSteps(runId, client),
    export: (runId) => exportRun(runId, client),
    findRunId: (beginning) => findRunId(beginning, client),
    list: (query) => listRuns(query, client),
    result: (runId, options) => readOutcome(runId, options, client),
    events: (runId, options) => followRun(runId, options, client),
    firehose: (signal) => followAll(signal, client),
    cancel: (runId, request) => cancelRun(runId, request, client),
    decide: (runId, decision, options) => decideRun(runId, decision, options, client),
    count: (filter) => countRuns(filter, client),
    cancelMany: (request) => cancelRuns(request, client),
    redrive: (request) => redriveRuns(request, client),
    approvals: (query) => listApprovals(query, client),
    flows: (query) => listFlows(query, client),
    flowReport: (query) => readFlowReport(query, client),
    erase: (request) => erase(request, client),
    erasureKey: () => readErasureKey(client),
    audit: (query) => readAuditLog(query, client),
    costs: (query) => readCosts(query, client),
    series: (query) => readTenantSeries(query, client),
    media: (handle) => readMedia(handle, client),
    progress: (runId, query) => readProgress(runId, query, client),
    writeProgress: (runId, note, options) => writeProgress(runId, note, options, client),
    agents: () => reach(client, ({ redis }) => core.agents.list(redis)),
    agent: (id) => reach(client, ({ redis }) => core.agents.read(id, redis)),
    registerAgents: (agents) => reach(client, ({ redis }) => core.agents.register(agents, redis)),
    forgetAgents: (ids) => reach(client, ({ redis }) => core.agents.forget(ids, redis)),
    queueDepths: () => queueDepths(client),
    providers: () => fleetProviders(client),
    fleet: () => readFleet(client),
    diagnose: async () => judged(await diagnose(client)),
    writeProblem: () => core.writes.look(),
    forTenant: (other, rights, requestId, by) =>
      redisOperations(
        { tenant: checkTenant(other), rights: atMost(client.rights, rights), requestId, by, core },
        async () => {},
      ),
    close,
  };
}

/** A client makes none that has more rights than itself. */
function atMost(own: Rights, asked: Rights = own): Rights {
  return own === 'caller' ? 'caller' : asked;
}
