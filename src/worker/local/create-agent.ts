import { systemClock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import { newRunId } from '../../shared/base/ids.ts';
import { parseConfig } from '../../shared/contract/config.ts';
import { sha256Of } from '../../shared/contract/media.ts';
import { parseAs } from '../../shared/base/problems.ts';
import { inputFileTtlS, type InputFile, type InputPart } from '../../shared/contract/input-parts.ts';
import { runInput, runRequest, type RunRecord, outcomeViewOf } from '../../shared/contract/run.ts';
import { takeInput } from '../../shared/state/inputs/take-input.ts';
import { createAgentTool } from '../agents/agent-tool.ts';
import { createBoundary, type Boundary } from '../agents/credentials.ts';
import { modelsOf } from '../agents/agent-models.ts';
import type { Agent } from '../agents/define-agent.ts';
import { loadedAll, type LoadedAgent } from '../agents/loaded-agent.ts';
import { createToolkit, type ToolServices } from '../agents/toolkit.ts';
import { createPriceLookup } from '../llm/prices.ts';
import { runFanOut } from '../orchestration/fan-out.ts';
import { bothGuards, guardOf } from '../orchestration/merge-guard.ts';
import { knownTools } from '../run/toolbox.ts';
import { CompactionRequests } from '../turn/compaction/policy.ts';
import type { AgentHandle, AgentRunOptions, CreateAgentOptions, ToolListing, AgentStream } from './agent-handle.ts';
import { localDeps, type LocalDeps, type OnPending, cancelOn, decideHere, drive } from './drive.ts';
import { runStateFromJSON, runStateOf, type RunState, refuseEnded } from './run-state.ts';
import { createInMemoryPorts, type InMemoryPorts } from './stores/in-memory.ts';
import { queuedRecord } from './stores/in-memory-row.ts';
import { isTerminal, type RunEvent } from '../../shared/contract/event.ts';

/** Where the runs of a handle are kept beyond it, and the conversation that they continue there. */
export interface AgentSession {
  readonly id: string;
  readonly ports: InMemoryPorts;
  /** Shared by all handles of the session. */
  readonly boundary: Boundary;
}

/** What a test looks at, and puts in the place of what runs work with. See `testAgent` in `millrace/testing`. */
export interface TestSeams {
  newRunId(): string;
  /** Spreads retries. */
  readonly random: () => number;
  /** Gets the events of all runs of the handle, those of children included. */
  onEvents(runId: string, events: readonly RunEvent[]): void;
  /** The agents, and the tools of servers, with others in the place of some tools. */
  agents(loaded: ReadonlyMap<string, LoadedAgent>): Map<string, LoadedAgent>;
  services(services: ToolServices): ToolServices;
}

type Options = CreateAgentOptions & {
  readonly env: NonNullable<CreateAgentOptions['env']>;
  readonly session?: AgentSession;
  readonly seams?: TestSeams;
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
  const { session, seams } = options;
  const deps = depsFor(agent, options);
  const { ports, compactionRequests } = deps;
  const loaded = deps.agents.get(agent.definition.id) as LoadedAgent;
  const { id } = loaded.definition;
  const { follow, refuseSecond } = handleTurns(deps, id, options.onPending);

  const stream: AgentHandle['stream'] = (input, { signal, directive, by, ...asked } = {}) => {
    refuseSecond();
    if (typeof input !== 'string' && !isParts(input)) {
      const saved = runStateFromJSON(input, loaded);
      refuseEnded(saved);
      const { runId } = saved.record;
      const ready = async () => {
        await ports.restore(saved);
        if (directive) await decideHere(runId, directive, by, ports);
      };
      return follow(runId, ready, signal);
    }
    const nowMs = ports.clock.now();
    const runId = seams?.newRunId() ?? newRunId(nowMs);
    const about = { runId, agent: id, thread: session?.id ?? asked.thread };
    const ready = async () => {
      const record = newRecord({ ...about, ...(await takenInput(input, ports)) }, asked, nowMs);
      if (!session) await refuseLockedThread(record, ports);
      ports.create(record);
    };
    // What is wrong with a text is thrown at once.
    if (typeof input === 'string') newRecord({ ...about, input }, asked, nowMs);
    return follow(runId, ready, signal);
  };

  return {
    id,
    ...listingsOf(loaded, deps.tools),
    stream,
    run: async (input, runOptions) => await stream(input, runOptions).result,
    resume(runId, decision, by) {
      refuseSecond();
      const directive = typeof decision === 'string' ? { budget: decision } : decision;
      return follow(runId, () => decideHere(runId, directive, by, ports));
    },
    state: (runId) => stateOf(runId, ports),
    compact: async () => (await compactionRequests?.ask()) ?? { compacted: false, reason: 'no-memory' },
    toTool: (toolOptions) => createAgentTool(loaded.definition, toolOptions, agent),
    media: (handle) => ports.media.get('default', sha256Of(handle) ?? ''),
    fanOut: (asked, fanOutDeps) =>
      runFanOut(asked, {
        clock: ports.clock,
        ...fanOutDeps,
        mergeGuard: bothGuards(guardOf(loaded.definition), fanOutDeps?.mergeGuard),
      }),
  };
}

/** What the runs of the handle work with, from its options. */
function depsFor(agent: Agent, options: Options): LocalDeps {
  const config = parseConfig(options.env);
  const { secrets, redactor, providers } = options.session?.boundary ?? createBoundary({ ...options, config });
  const ports = options.session?.ports ?? createInMemoryPorts({ redactor, clock: options.clock ?? systemClock });
  const toolkit = createToolkit({
    config,
    secrets,
    redactor,
    log: ports.log,
    clock: ports.clock,
    // A connection that no run uses must not keep the process alive.
    serverIdleMs: 0,
    capabilities: options.capabilities,
  });
  const { seams } = options;
  const loaded = loadedAll([agent, ...(options.agents ?? [])], toolkit.offer);
  const agents = seams?.agents(loaded) ?? loaded;
  const services = toolkit.services(ports);
  if (seams) ports.onEvents((runId, events) => seams.onEvents(runId, events));
  const models = modelsOf(providers, {
    price: createPriceLookup(config.MILLRACE_PRICES, providers.prices),
    clock: ports.clock,
    agents: agents.values(),
    onAuthError: options.onAuthError,
    random: seams && (() => seams.random()),
  });
  return localDeps({
    ...models,
    ports,
    agents,
    compactionRequests: agents.get(agent.definition.id)?.definition.compaction && new CompactionRequests(),
    limitCaps: {
      maxSteps: config.MAX_STEPS_CAP,
      maxJournalBytes: config.JOURNAL_MAX_BYTES,
      loopGuard: config.LOOP_GUARD === 'on',
    },
    tools: { ...(seams?.services(services) ?? services), agents: () => agents },
    loadTask: options.loadTask,
  });
}

function newRecord(
  {
    runId,
    ...request
  }: Record<'runId' | 'agent' | 'input', string> & {
    readonly thread: string | undefined;
    readonly files?: InputFile[];
  },
  asked: Omit<AgentRunOptions, 'signal' | 'thread'>,
  nowMs: number,
): RunRecord {
  // The caller has the definition of the agent, so its limits do not bound this caller.
  const parsed = runRequest.parse({ ...asked, ...request, raise: true });
  return queuedRecord({ runId, tenant: 'default', kind: 'agent.turn', queue: 'in-memory', request: parsed }, nowMs);
}

function isParts(input: RunState | readonly InputPart[]): input is readonly InputPart[] {
  return Array.isArray(input);
}

/** Files are kept in this process, like all else of its runs; none can be uploaded to it. */
async function takenInput(input: string | readonly InputPart[], ports: InMemoryPorts) {
  const given = parseAs(runInput, input, 'the input is not valid');
  return await takeInput(given, { tenant: 'default', stores: ports, keepS: inputFileTtlS, path: 'input' });
}

function stateOf(runId: string, ports: InMemoryPorts): RunState {
  const saved = ports.save(runId);
  if (!saved) throw new RunError('run_not_found', `this handle has no run ${runId}`);
  const { thread } = saved.record.request;
  if (thread !== undefined)
    throw new RunError('validation', `run ${runId} goes on in thread ${thread}, which only this handle has`);
  return runStateOf(saved);
}

function listingsOf(agent: LoadedAgent, services: ToolServices): Pick<AgentHandle, 'tools' | 'registry'> {
  const registry = knownTools(agent, services);
  return {
    tools: registry.catalogue().map(listing),
    registry: Object.freeze({
      listEager: () => registry.listEager().map(listing),
      listDeferred: () => registry.listDeferred().map(listing),
    }),
  };
}

function listing({ name, description }: ToolListing): ToolListing {
  return { name, description };
}

/** Follows the turns of one handle, each to its end. One at a time: `refuseSecond` throws `concurrent_run` for another. */
function handleTurns(deps: LocalDeps, agentId: string, onPending: OnPending | undefined) {
  const { ports } = deps;
  let isBusy = false; /** Gets a run ready, drives it, and hands out its events. What goes wrong is in the result. */
  const follow = (runId: string, ready: () => Promise<void>, signal?: AbortSignal): AgentStream => {
    const feed = new Feed();
    const subscription = ports.onEvents((id, events) => {
      if (id === runId) feed.push(events);
    });
    isBusy = true;
    const result = (async () => {
      await ready();
      // Until now there was no run to be cancelled.
      using _ = cancelOn(signal, runId, ports);
      return outcomeViewOf(await drive(runId, deps, onPending));
    })().finally(() => {
      isBusy = false;
      subscription[Symbol.dispose]();
      feed.end();
    });
    // A caller that only reads events must not get an unhandled rejection; the failure is still in `result`.
    result.catch(() => {});
    return { result, [Symbol.asyncIterator]: () => feed.read() };
  };

  const refuseSecond = () => {
    if (isBusy) throw new RunError('concurrent_run', `agent ${agentId} already has a run in progress`);
  };

  return { follow, refuseSecond };
}

/** A run that waits for something outside keeps its thread, and no one here would wake the run that waits for the thread. */
async function refuseLockedThread({ runId, tenant, request }: RunRecord, { threads }: InMemoryPorts): Promise<void> {
  const { agent: agentId, thread: threadId } = request;
  if (threadId === undefined) return;
  const entered = await threads.enter({ tenant, threadId, runId, agentId, onBusy: 'reject' });
  if (entered.kind === 'refused_suspended' || entered.kind === 'refused_busy')
    throw new RunError('thread_suspended', `run ${entered.lockOwner} waits for a decision on thread ${threadId}`);
}

/** Hands the events of a run to one reader in order. Bounded by what one run of one process can emit. */
class Feed {
  readonly #events: RunEvent[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  push(events: readonly RunEvent[]): void {
    this.#events.push(...events);
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *read(): AsyncGenerator<RunEvent> {
    for (let at = 0; ; at++) {
      while (at >= this.#events.length) {
        if (this.#ended) return;
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
      const event = this.#events[at] as RunEvent;
      yield event;
      if (isTerminal(event)) return;
    }
  }
}
