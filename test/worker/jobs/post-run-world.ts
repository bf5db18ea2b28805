import type { PostRunKind, PostrunJob } from '../../../src/shared/contract/queues.ts';
import { type Tenants, tenantsOf } from '../../../src/shared/contract/tenants.ts';
import type { ThreadEntry } from '../../../src/shared/contract/thread/thread.ts';
import { modelsOf, singleProvider } from '../../../src/worker/agents/agent-models.ts';
import { runPostRunJob, type PostRunDelivery } from '../../../src/worker/jobs/post-run-job.ts';
import { createPriceLookup } from '../../../src/worker/llm/prices.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import type { Embedder } from '../../../src/worker/jobs/embeddings.ts';
import type { Ledger, Settlement } from '../../../src/shared/state/money/ledger.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { createInMemoryPorts } from '../../../src/worker/local/stores/in-memory.ts';

export const tenant = 'acme';
export const threadId = 'talk';
export const agentId = 'support';
export const runId = '01K9Z5N3T8R6V2X4B7C1D0E9FG';

interface Given {
  readonly script?: ModelScript;
  readonly agent?: Partial<AgentSource>;
  readonly embedder?: Embedder;
  readonly tenants?: Tenants;
  /** Default: the one in memory, which has no accounts of tenants. */
  readonly ledger?: Ledger;
  readonly deadlineMs?: number;
}

/** A thread in memory, and the post-run jobs of its runs. */
export function makePostRunWorld({
  script,
  agent,
  embedder,
  tenants = tenantsOf({}),
  ledger: given,
  deadlineMs,
}: Given = {}) {
  const seen: LlmRequest[] = [];
  const settled: Settlement[] = [];
  const inMemory = createInMemoryPorts();
  const ledger = given ?? inMemory.ledger;
  const settle = ledger.settle.bind(ledger);
  ledger.settle = async (settlement) => {
    settled.push(settlement);
    return await settle(settlement);
  };
  const ports = { ...inMemory, ledger };
  const loaded = loadedFrom(defineAgent({ id: agentId, model: 'gpt-5.2-mini', ...agent }));
  const provider = createScriptedProvider((request, signal) => {
    seen.push(request);
    return script?.(request, signal) ?? { text: '"Where is order seven?"' };
  });
  const deps = {
    ports,
    agents: new Map([[agentId, loaded]]),
    maxInlineWaitMs: 100,
    tenants,
    wake: () => {},
    ...modelsOf(singleProvider(provider), { price: createPriceLookup() }),
    ...(embedder && { embedder }),
    ...(deadlineMs !== undefined && { deadlineMs }),
  };
  return {
    seen,
    settled,
    ports,
    /** A run has its turn in the thread. */
    async turn(user: string, answer: string, run = runId, more: Partial<ThreadEntry> = {}) {
      const at = new Date(ports.clock.now()).toISOString();
      const base = { v: 1, t: 'message', runId: run, at, ...more } as const;
      const acquired = await ports.threads.acquire({ tenant, threadId, runId: run, agentId, epoch: 1 });
      if (acquired.kind !== 'acquired') throw new Error('the thread is not free');
      await ports.threads.append({ tenant, threadId, runId: run, fence: acquired.fence }, `${run}:end`, [
        { ...base, message: { role: 'user', content: user } },
        { ...base, message: { role: 'assistant', parts: [{ type: 'text', text: answer }] } },
      ] as ThreadEntry[]);
      await ports.threads.leave(tenant, threadId, run);
    },
    async follow(
      postRun: PostRunKind,
      delivery: PostRunDelivery = { isRepeat: false, isLast: true },
      signal = new AbortController().signal,
    ) {
      const job: PostrunJob = { v: 1, kind: 'postrun', postRun, runId, tenant, threadId, agentId };
      return await runPostRunJob(job, delivery, deps, signal);
    },
    async title() {
      return (await ports.threads.get(tenant, threadId)).title;
    },
    async events() {
      return (await ports.threads.events({ tenant, threadId }, { limit: 100 })).events;
    },
  };
}
