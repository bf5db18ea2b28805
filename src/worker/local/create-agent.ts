import { childrenOf } from '../../shared/state/run/children/children.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { tenantsOf } from '../../shared/contract/tenants.ts';
import { parseConfig } from '../../shared/contract/config.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { DecisionInput } from '../../shared/contract/control.ts';
import { pendingViewOf } from '../../shared/contract/decisions.ts';
import { isTerminal, type PendingItem, type PendingView, type RunEvent } from '../../shared/contract/event.ts';
import { newRunId } from '../../shared/base/ids.ts';
import { sha256Of } from '../../shared/contract/media.ts';
import {
  outcomeViewOf,
  runRequest,
  type RunOutcomeView,
  type RunRecord,
  type RunRequestInput,
} from '../../shared/contract/run.ts';
import { createBoundary, type Boundary } from '../agents/boundary.ts';
import { modelsOf } from '../agents/chain.ts';
import type { Middleware } from '../llm/backends/middleware.ts';
import type { LlmProvider } from '../llm/provider.ts';
import { createPriceLookup } from '../llm/prices.ts';
import type { ModelResolver } from '../llm/backends/providers.ts';
import type { LoadTask } from '../agents/load-task.ts';
import { createAgentTool, type AgentToolOptions } from '../agents/agent-tool.ts';
import { CancelWatch } from '../run/cancel-watch.ts';
import type { Agent } from '../agents/define-agent.ts';
import { runFanOut, type FanOutDeps, type FanOutResult } from '../orchestration/fan-out.ts';
import type { FanOutOptions } from '../orchestration/fan-out-options.ts';
import { FlushTimer } from '../run/flush-timer.ts';
import { loadedAll, type LoadedAgent } from '../agents/load-agents.ts';
import { runJob } from '../run/run-job.ts';
import { refuseEnded, runStateFromJSON, runStateOf, type RunState } from './run-state.ts';
import { createMemoryPorts, type MemoryPorts } from './stores/memory.ts';
import { queuedRecord } from './stores/memory-row.ts';
import { createToolkit } from '../agents/toolkit.ts';
import type { CapabilityResolver } from '../tools/capabilities.ts';
import { configuredTools } from '../tools/configure.ts';
import { CompactionDesk, type CompactionAnswer } from '../turn/compaction/compaction-desk.ts';
import type { Tool } from '../tools/tool.ts';
import { createToolRegistry } from '../tools/registry.ts';

/** In one process a run waits where it is. */
const longestWaitMs = 86_400_000;
const timerGridMs = 200;
/** Waits that end by themselves. */
const timed: ReadonlySet<string> = new Set(['media', 'retry', 'provider_limit']);

export interface CreateAgentOptions {
  /** The other agents that this one may ask or hand over to. */
  readonly agents?: readonly Agent[];
  /** Serves every model of these agents. Default: what `env` configures, as for a worker. */
  readonly provider?: LlmProvider;
  /** Stand between the runner and each provider, the first one outermost. See `withMiddleware`. */
  readonly middleware?: readonly Middleware[];
  /** Decides who serves a model, before names and settings do; `undefined` leaves it to them. */
  readonly resolveModel?: ModelResolver;
  /** Renews the credentials of a provider that refused them; `true` grants one more attempt. At most once per run. */
  readonly onAuthError?: (provider: string, signal: AbortSignal) => Promise<boolean>;
  /** Settings by the names of the environment variables. Default: the process's environment. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The tasks that its runs may work on, by id. Default: there are none. */
  readonly loadTask?: LoadTask;
  /** What the agent may name in `capabilities`, each with what it brings. */
  readonly capabilities?: Readonly<Record<string, CapabilityResolver>>;
  /**
   * Asked in place of ending as `suspended`, for each thing that a run waits for people to decide; `undefined` leaves it
   * waiting. A throw, and no answer within 300 s, deny it.
   */
  readonly onPending?: (item: PendingView, runId: string) => Promise<PersonSays | undefined>;
}

export interface AgentRunOptions extends Pick<RunRequestInput, 'limits' | 'overrides' | 'budget' | 'media' | 'task'> {
  /**
   * Goes on with the conversation of earlier runs of this handle with the same thread. While one of them waits for a decision
   * the result rejects with `thread_suspended`.
   */
  readonly thread?: string;
  /** Cancels the run: it then resolves with status `cancelled` and an empty text, never with an error. */
  readonly signal?: AbortSignal;
}

/** What somebody says about one thing that a run waits for. */
export type PersonSays =
  | { readonly granted: boolean; readonly reason?: string; readonly updatedArgs?: Record<string, unknown> }
  | { readonly answer: string };

/** What decides about a run that goes on. */
export interface RunDirective {
  readonly directive?: DecisionInput;
  /** Who decides, for the audit trail. */
  readonly by?: string;
}

/** A run in progress: its events, and its result, which also resolves when nobody reads the events. */
export interface AgentStream extends AsyncIterable<RunEvent> {
  readonly result: Promise<RunOutcomeView>;
}

/** What the model of this agent may call. */
export interface ToolListing {
  readonly name: string;
  readonly description: string;
}

/** An agent that runs inside this process, without Redis and without durability. */
export interface AgentHandle {
  readonly id: string;
  readonly tools: readonly ToolListing[];
  /** The tools by what the model is told of them. Those of MCP servers are known only while a run goes on. */
  readonly registry: {
    /** At once. */
    listEager(): readonly ToolListing[];
    /** Once it has found them with `tool_search`. */
    listDeferred(): readonly ToolListing[];
  };
  /** Starts a turn. One at a time per handle: a second throws `concurrent_run`. */
  stream(input: string | RunState, options?: AgentRunOptions & RunDirective): AgentStream;
  /**
   * The same, drained: resolves when the turn has ended, or waits for a decision (status `suspended`). A failed run does
   * not throw; see `status` and `error`.
   */
  run(input: string | RunState, options?: AgentRunOptions & RunDirective): Promise<RunOutcomeView>;
  /**
   * Goes on with a run of this handle that waits: for people, as the decision says, or for money, over the cap for one step or
   * to its end. What nobody decided about keeps it waiting. Throws as `Millrace.decide` does.
   */
  resume(runId: string, decision: 'approve' | 'reject' | DecisionInput, by?: string): AgentStream;
  /**
   * Everything that a run of this handle needs to go on in another process, with `run(state, { directive })`. See
   * `runStateToJSON`. Throws `run_not_found`, and `validation` for a run in a thread: its conversation stays in this handle.
   */
  state(runId: string): RunState;
  /**
   * Summarises the older part of the conversation of the run that is in progress, before its next model call. Resolves
   * once that is done, so do not wait for it inside a tool; where nothing is done, with the reason. Needs `memory`.
   */
  compact(): Promise<CompactionAnswer>;
  /** This agent as a tool of another one. See `DefinedAgent.toTool`. */
  toTool(options?: AgentToolOptions): Tool;
  /** The bytes behind a handle of a result. Kept as long as 256 MiB of newer ones leave room. */
  media(handle: string): { readonly mediaType: string; readonly bytes: Uint8Array } | undefined;
  /** Asks several agents and makes one answer of theirs, see {@link runFanOut}. No run of this handle is needed for it. */
  fanOut<T = string>(options: FanOutOptions<T>, deps?: FanOutDeps): Promise<FanOutResult<T>>;
}

/** Where the runs of a handle are kept beyond it, and the conversation that they continue there. */
export interface AgentSession {
  readonly id: string;
  readonly ports: MemoryPorts;
  /** Shared by all handles of the session's program. */
  readonly boundary: Boundary;
}

/** What dies with this process is gone: nobody takes it up, and nobody asks who did it. */
const onlyRun = { crashLimit: 1, blameLimit: 1, activity: 'watched' } as const;

/**
 * Makes an agent that runs in this process: same turn core, tools, limits, events and result as on a worker, with the
 * journal in memory. Nothing survives the process.
 *
 * @example
 * const agent = createAgent(defineAgent({ id: 'support', model: 'gpt-5.2-mini', tools: [lookupOrder] }));
 * const { text, costMicrocents } = await agent.run('Where is order 7?');
 */
export function createAgentWith(
  agent: Agent,
  options: CreateAgentOptions & {
    readonly env: NonNullable<CreateAgentOptions['env']>;
    readonly session?: AgentSession;
  },
): AgentHandle {
  const config = parseConfig(options.env);
  const { session } = options;
  const { secrets, redactor, providers } = session?.boundary ?? createBoundary({ ...options, config });
  const ports = session?.ports ?? createMemoryPorts({ redactor });
  const toolkit = createToolkit({
    config,
    secrets,
    redactor,
    log: ports.log,
    clock: systemClock,
    // Nothing of a handle that is not used keeps its process alive.
    serverIdleMs: 0,
    ...(options.capabilities && { capabilities: options.capabilities }),
  });
  const agents = loadedAll([agent, ...(options.agents ?? [])], toolkit.offer);
  const loaded = agents.get(agent.definition.id) as LoadedAgent;
  const desk = loaded.definition.memory && new CompactionDesk();
  const deps = {
    ports,
    ...(desk && { desk }),
    agents,
    // In one process there is no write to save: every delta is an event of its own.
    flushTimer: new FlushTimer(0),
    limitCaps: { maxSteps: config.MAX_STEPS_CAP },
    ...modelsOf(providers, {
      price: createPriceLookup(config.MILLRACE_PRICES, providers.prices),
      agents: agents.values(),
      ...(options.onAuthError && { onAuthError: options.onAuthError }),
    }),
    // Nobody else waits for this process's slot.
    patienceMs: longestWaitMs,
    tenants: tenantsOf({}),
    wake: (runId: string, summary: string) => void ports.waits.resume(runId, { summary }),
    stopping: () => false,
    tools: { ...toolkit.services(ports), agents: () => agents },
    ...(options.loadTask && { loadTask: options.loadTask }),
  };
  const { toolOptions, toolCollisions } = loaded.definition;
  const registry = createToolRegistry(configuredTools(loaded.tools, toolOptions, toolCollisions));
  let busy = false;

  async function turn(runId: string): Promise<RunOutcomeView> {
    using cancels = new CancelWatch(ports);
    const delivery = { jobTry: 1, queue: 'memory', worker: 'this process', ...onlyRun };
    for (;;) {
      const before = await ports.runs.load(runId);
      if (before?.status === 'queued') {
        const { kind, segment } = before;
        const job = { v: 1, kind, runId, segment };
        await runJob(job, delivery, { ...deps, cancels }, new AbortController().signal);
      }
      const record = await ports.runs.load(runId);
      if (!record) throw new RunError('internal', 'the run vanished from memory');
      const below = record.status === 'suspended' ? childrenOf(record) : [];
      if (below.length > 0 && (await workBelow(runId, below))) continue;
      const waitsForTime = record.status === 'suspended' && record.pending.every(({ kind }) => timed.has(kind));
      if (record.status === 'suspended' && !waitsForTime && (await askHere(record))) continue;
      if (record.status !== 'queued' && !waitsForTime) return outcomeViewOf(record);
      if (waitsForTime) await untilDue(runId);
    }
  }

  /** Runs what works for a run. Has that ended its wait? */
  async function workBelow(runId: string, below: readonly string[]): Promise<boolean> {
    await Promise.all(below.map(async (id) => await turn(id)));
    for (const id of below) await ports.children.ended(id);
    return (await ports.runs.load(runId))?.status !== 'suspended';
  }

  /** Has somebody in this process decided about what the run waits for, so that it goes on? */
  async function askHere({ runId, pending }: RunRecord): Promise<boolean> {
    const { onPending } = options;
    if (!onPending) return false;
    const said = await Promise.all(
      pending.filter(({ kind }) => kind !== 'budget').map((item) => ask(onPending, item, runId)),
    );
    const approvals = said.filter((one) => one !== undefined && 'granted' in one);
    const answers = said.filter((one) => one !== undefined && 'answer' in one);
    if (approvals.length + answers.length === 0) return false;
    return ports.decide(runId, {
      ...(approvals.length > 0 && { approvals }),
      ...(answers.length > 0 && { answers }),
    });
  }

  async function wakeDue(): Promise<void> {
    for (const due of await ports.waits.due(100)) await ports.waits.resume(due, { summary: 'its time has come' });
    for (const due of await ports.deadlines.due(100))
      if (!(await ports.waits.resume(due, { summary: 'its deadline has passed' }))) await ports.deadlines.clear(due);
  }

  /** Nobody looks at the clock between two turns: what is over by now is over before anybody decides. */
  async function decide(runId: string, decision: DecisionInput, by: string | undefined): Promise<void> {
    await wakeDue();
    try {
      ports.decide(runId, decision, by);
    } catch (error) {
      const goesOn = (await ports.runs.load(runId))?.status === 'queued';
      if (!(goesOn && error instanceof RunError && error.code === 'approval_expired')) throw error;
    }
  }

  async function untilDue(runId: string): Promise<void> {
    await wakeDue();
    const record = await ports.runs.load(runId);
    if (record?.status !== 'suspended') return;
    if (record.cancel !== undefined) await ports.waits.resume(runId, { summary: 'a cancel was asked for' });
    else await systemClock.sleep(timerGridMs);
  }

  function stream(
    input: string | RunState,
    { signal, directive, by, ...asked }: AgentRunOptions & RunDirective = {},
  ): AgentStream {
    refuseSecondRun();
    if (typeof input !== 'string') return goOn(runStateFromJSON(input, loaded), directive, by, signal);
    const thread = session?.id ?? asked.thread;
    // Who calls holds the definition, so it is no caller who is to be bounded by it.
    const record = newRecord(runRequest.parse({ agent: loaded.definition.id, input, ...asked, thread, raise: true }));
    const begin = async () => {
      if (!session) await refuseHeldThread(record);
      ports.create(record);
    };
    return follow(record.runId, begin, signal);
  }

  /** A run that waits for something outside keeps its turn, and nobody here would wake the one behind it. */
  async function refuseHeldThread({ runId, tenant, request: { agent: agentId, thread: threadId } }: RunRecord) {
    if (threadId === undefined) return;
    const entered = await ports.threads.enter({ tenant, threadId, runId, agentId, onBusy: 'reject' });
    if (entered.kind === 'refused_suspended' || entered.kind === 'refused_busy')
      throw new RunError('thread_suspended', `run ${entered.holder} waits for a decision on thread ${threadId}`);
  }

  function refuseSecondRun(): void {
    if (busy) throw new RunError('concurrent_run', `agent ${loaded.definition.id} already has a run in progress`);
  }

  /** A run that another process has begun. */
  function goOn(
    saved: RunState,
    directive: DecisionInput | undefined,
    by: string | undefined,
    signal: AbortSignal | undefined,
  ): AgentStream {
    refuseEnded(saved);
    const { runId } = saved.record;
    const begin = async () => {
      await ports.restore(saved);
      if (directive) await decide(runId, directive, by);
    };
    return follow(runId, begin, signal);
  }

  function resume(runId: string, decision: 'approve' | 'reject' | DecisionInput, by?: string): AgentStream {
    refuseSecondRun();
    return follow(runId, () => decide(runId, typeof decision === 'string' ? { budget: decision } : decision, by));
  }

  function state(runId: string): RunState {
    const saved = ports.save(runId);
    if (!saved) throw new RunError('run_not_found', `this handle has no run ${runId}`);
    const { thread } = saved.record.request;
    if (thread !== undefined)
      throw new RunError('validation', `run ${runId} goes on in thread ${thread}, which only this handle has`);
    return runStateOf(saved);
  }

  /** Runs what `begin` has made ready, and hands out its events. */
  function follow(runId: string, begin: () => void | Promise<void>, signal?: AbortSignal): AgentStream {
    const feed = new Feed();
    const subscription = ports.onEvents((id, events) => {
      if (id === runId) feed.push(events);
    });
    busy = true;
    // What is wrong about it is in the result, like everything else.
    const started = (async () => await begin())();
    const cancel = () => void ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
    signal?.addEventListener('abort', cancel, { once: true });
    const result = (async () => {
      await started;
      // Until now there was no run to be cancelled.
      if (signal?.aborted) cancel();
      return await turn(runId);
    })().finally(() => {
      busy = false;
      signal?.removeEventListener('abort', cancel);
      subscription[Symbol.dispose]();
      feed.end();
    });
    // Who only reads events must not be told of an unhandled rejection; the failure is still in `result`.
    result.catch(() => {});
    return { result, [Symbol.asyncIterator]: () => feed.read() };
  }

  return {
    id: loaded.definition.id,
    tools: loaded.tools.map(listing),
    registry: Object.freeze({
      listEager: () => registry.listEager().map(listing),
      listDeferred: () => registry.listDeferred().map(listing),
    }),
    stream,
    run: async (input, runOptions) => await stream(input, runOptions).result,
    resume,
    state,
    compact: async () => (await desk?.ask()) ?? { compacted: false, reason: 'no-memory' },
    toTool: (toolOptions) => createAgentTool(loaded.definition, toolOptions, agent),
    media: (handle) => ports.media.get('default', sha256Of(handle) ?? ''),
    fanOut: runFanOut,
  };
}

function listing({ name, description }: ToolListing): ToolListing {
  return { name, description };
}

const longestAskMs = 300_000;

/** What a person in this process says. Whoever cannot be asked has denied. */
async function ask(
  onPending: NonNullable<CreateAgentOptions['onPending']>,
  item: PendingItem,
  runId: string,
): Promise<({ readonly toolCallId: string } & PersonSays) | undefined> {
  const over = new AbortController();
  const late = systemClock.sleep(longestAskMs, over.signal).then(() => ({ granted: false, reason: 'nobody answered' }));
  try {
    const said = await Promise.race([onPending(pendingViewOf(item), runId), late]);
    return said && { toolCallId: item.id, ...said };
  } catch (error) {
    const reason = error instanceof Error ? error.message.slice(0, 500) : 'nobody could be asked';
    return { toolCallId: item.id, granted: false, reason };
  } finally {
    late.catch(() => {});
    over.abort();
  }
}

function newRecord(request: RunRecord['request']): RunRecord {
  const nowMs = systemClock.now();
  return queuedRecord(
    { runId: newRunId(nowMs), tenant: 'default', kind: 'agent.turn', queue: 'memory', request },
    nowMs,
  );
}

/** Hands events to one reader in order. Bounded by what one run of one process can say. */
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
