import type { RunEvent, EventOf } from '../../../src/shared/contract/event.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { tenantsOf } from '../../../src/shared/contract/tenants.ts';
import { runRequest, type RunRequestInput } from '../../../src/shared/contract/run.ts';
import { modelsOf, singleProvider } from '../../../src/worker/agents/agent-models.ts';
import type { LlmProvider } from '../../../src/worker/llm/provider.ts';
import { createPriceLookup } from '../../../src/worker/llm/prices.ts';
import { CancelWatch } from '../../../src/worker/run/signals.ts';
import type { Agent } from '../../../src/worker/agents/define-agent.ts';
import { FlushTimer } from '../../../src/worker/run/writer.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import type { RunDeps } from '../../../src/worker/run/run-context.ts';
import { abandonRun, runJob } from '../../../src/worker/run/run-job.ts';
import { createInMemoryPorts } from '../../../src/worker/local/stores/in-memory.ts';
import { aRecord } from '../../contract/run-fixtures.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';

/** Runs in memory, or in the ports that are given, segment by segment, by a clock that the test moves. */
export function makeJobs(agent: Agent, provider: LlmProvider, maxInlineWaitMs = 1_000, more: Partial<RunDeps> = {}) {
  const clock = new FakeClock();
  const ports = createInMemoryPorts({ clock });
  const deps: RunDeps = {
    ports,
    agents: new Map([[agent.definition.id, loadedFrom(agent)]]),
    flushTimer: new FlushTimer(5),
    cancels: new CancelWatch(more.ports ?? ports),
    limitCaps: { maxSteps: 10, maxJournalBytes: Number.POSITIVE_INFINITY },
    stopping: () => false,
    maxInlineWaitMs,
    tenants: tenantsOf({}),
    wake: () => {},
    tools: { log: silentLog },
    ...modelsOf(singleProvider(provider), { price: createPriceLookup() }),
    ...more,
  };
  const eventsOf = <T extends RunEvent['type']>(runId: string, type: T) =>
    ports.events(runId).filter((event): event is EventOf<T> => event.type === type);
  return {
    clock,
    ports,
    eventsOf,
    submit(request: Omit<RunRequestInput, 'agent'>): string {
      const parsed = runRequest.parse({ agent: agent.definition.id, ...request });
      const createdAt = new Date(clock.now()).toISOString();
      const record = aRecord({ request: parsed, kind: parsed.node ? 'node' : 'agent.turn', createdAt });
      ports.create(record);
      return record.runId;
    },
    /** One processor call. */
    async deliver(runId: string, jobTry = 1, signal = new AbortController().signal) {
      const record = await deps.ports.runs.load(runId);
      const job = { v: 1, kind: record?.kind ?? 'node', runId, segment: record?.segment ?? 0 };
      return await runJob(
        job,
        {
          jobTry,
          queue: 'runs',
          worker: 'w',
          crashLimit: 9,
          blameLimit: 9,
          activity: 'idle',
        },
        deps,
        signal,
      );
    },
    /** Ends a run that no worker can run. */
    async abandon(runId: string, reason: Parameters<typeof abandonRun>[1]) {
      const record = await deps.ports.runs.load(runId);
      await abandonRun({ runId, segment: record?.segment ?? 0 }, reason, 'w', deps);
    },
    /** Lets time pass, and wakes what is due. Answers the runs that were woken. */
    async pass(ms: number) {
      clock.jump(ms);
      const due = await ports.waits.due(10);
      for (const runId of due) await ports.waits.resume(runId, { summary: 'its time has come' });
      return due;
    },
    load: async (runId: string) => await deps.ports.runs.load(runId),
  };
}
