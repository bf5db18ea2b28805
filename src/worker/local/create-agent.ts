import { systemClock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import { newRunId } from '../../shared/base/ids.ts';
import { parseConfig } from '../../shared/contract/config.ts';
import { sha256Of } from '../../shared/contract/media.ts';
import { runRequest, type RunRecord } from '../../shared/contract/run.ts';
import { createAgentTool } from '../agents/agent-tool.ts';
import { createBoundary, type Boundary } from '../agents/boundary.ts';
import { modelsOf } from '../agents/chain.ts';
import type { Agent } from '../agents/define-agent.ts';
import { loadedAll, type LoadedAgent } from '../agents/load-agents.ts';
import { createToolkit } from '../agents/toolkit.ts';
import { createPriceLookup } from '../llm/prices.ts';
import { runFanOut } from '../orchestration/fan-out.ts';
import { configuredTools } from '../tools/configure.ts';
import { createToolRegistry } from '../tools/registry.ts';
import { CompactionRequests } from '../turn/compaction/policy.ts';
import type { AgentHandle, AgentRunOptions, CreateAgentOptions, ToolListing } from './agent-handle.ts';
import { localDeps, type LocalDeps } from './drive.ts';
import { HandleTurns } from './handle-turns.ts';
import { runStateFromJSON, runStateOf, type RunState } from './run-state.ts';
import { createInMemoryPorts, type InMemoryPorts } from './stores/in-memory.ts';
import { queuedRecord } from './stores/in-memory-row.ts';

/** Where the runs of a handle are kept beyond it, and the conversation that they continue there. */
export interface AgentSession {
  readonly id: string;
  readonly ports: InMemoryPorts;
  /** Shared by all handles of the session. */
  readonly boundary: Boundary;
}

type Options = CreateAgentOptions & {
  readonly env: NonNullable<CreateAgentOptions['env']>;
  readonly session?: AgentSession;
};

/**
 * Makes an agent that runs in this process: same turn core, tools, limits, events and result as on a worker, with the
 * journal in memory. Nothing survives the process.
 *
 * @example
 * const agent = createAgent(defineAgent({ id: 'support', model: 'gpt-5.2-mini', tools: [lookupOrder] }));
 * const { text, costMicrocents } = await agent.run('Where is order 7?');
 */
export function createAgentWith(agent: Agent, options: Options): AgentHandle {
  const { session } = options;
  const deps = depsFor(agent, options);
  const { ports, compactionRequests } = deps;
  const loaded = deps.agents.get(agent.definition.id) as LoadedAgent;
  const { id } = loaded.definition;
  const turns = new HandleTurns(deps, id, options.onPending);

  const stream: AgentHandle['stream'] = (input, { signal, directive, by, ...asked } = {}) => {
    turns.refuseSecond();
    if (typeof input !== 'string') return turns.restore(runStateFromJSON(input, loaded), directive, by, signal);
    return turns.begin(newRecord(id, input, asked, session?.id ?? asked.thread), !session, signal);
  };

  return {
    id,
    ...listingsOf(loaded),
    stream,
    run: async (input, runOptions) => await stream(input, runOptions).result,
    resume(runId, decision, by) {
      turns.refuseSecond();
      return turns.resume(runId, typeof decision === 'string' ? { budget: decision } : decision, by);
    },
    state: (runId) => stateOf(runId, ports),
    compact: async () => (await compactionRequests?.ask()) ?? { compacted: false, reason: 'no-memory' },
    toTool: (toolOptions) => createAgentTool(loaded.definition, toolOptions, agent),
    media: (handle) => ports.media.get('default', sha256Of(handle) ?? ''),
    fanOut: runFanOut,
  };
}

/** What the runs of the handle work with, from its options. */
function depsFor(agent: Agent, options: Options): LocalDeps {
  const config = parseConfig(options.env);
  const { secrets, redactor, providers } = options.session?.boundary ?? createBoundary({ ...options, config });
  const ports = options.session?.ports ?? createInMemoryPorts({ redactor });
  const toolkit = createToolkit({
    config,
    secrets,
    redactor,
    log: ports.log,
    clock: systemClock,
    // A connection that no run uses must not keep the process alive.
    serverIdleMs: 0,
    capabilities: options.capabilities,
  });
  const agents = loadedAll([agent, ...(options.agents ?? [])], toolkit.offer);
  const models = modelsOf(providers, {
    price: createPriceLookup(config.MILLRACE_PRICES, providers.prices),
    agents: agents.values(),
    onAuthError: options.onAuthError,
  });
  return localDeps({
    ...models,
    ports,
    agents,
    compactionRequests: agents.get(agent.definition.id)?.definition.compaction && new CompactionRequests(),
    limitCaps: { maxSteps: config.MAX_STEPS_CAP },
    tools: { ...toolkit.services(ports), agents: () => agents },
    loadTask: options.loadTask,
  });
}

function newRecord(
  agent: string,
  input: string,
  asked: Omit<AgentRunOptions, 'signal'>,
  thread: string | undefined,
): RunRecord {
  const nowMs = systemClock.now();
  // The caller has the definition of the agent, so its limits do not bound this caller.
  const request = runRequest.parse({ agent, input, ...asked, thread, raise: true });
  const run = { runId: newRunId(nowMs), tenant: 'default', kind: 'agent.turn', queue: 'in-memory', request } as const;
  return queuedRecord(run, nowMs);
}

function stateOf(runId: string, ports: InMemoryPorts): RunState {
  const saved = ports.save(runId);
  if (!saved) throw new RunError('run_not_found', `this handle has no run ${runId}`);
  const { thread } = saved.record.request;
  if (thread !== undefined)
    throw new RunError('validation', `run ${runId} goes on in thread ${thread}, which only this handle has`);
  return runStateOf(saved);
}

function listingsOf({ tools, definition }: LoadedAgent): Pick<AgentHandle, 'tools' | 'registry'> {
  const { toolOptions, toolCollisions } = definition;
  const registry = createToolRegistry(configuredTools(tools, toolOptions, toolCollisions));
  return {
    tools: tools.map(listing),
    registry: Object.freeze({
      listEager: () => registry.listEager().map(listing),
      listDeferred: () => registry.listDeferred().map(listing),
    }),
  };
}

function listing({ name, description }: ToolListing): ToolListing {
  return { name, description };
}
