import { thereIsNo } from '../../shared/base/nearest.ts';
import { z } from 'zod';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { defined } from '../../shared/base/collections.ts';
import { asRunError, RunError } from '../../shared/base/errors.ts';
import { type RunUsage, addRunUsage, emptyRunUsage } from '../../shared/contract/money.ts';
import { parseConfig } from '../../shared/contract/config.ts';
import type { TaskDefinition } from '../../shared/contract/orchestration/task.ts';
import { createBoundary } from '../agents/credentials.ts';
import { createAgentEngine, OwnParts, type AgentEngineOptions } from './agent-engine.ts';
import { defaultPrompt } from '../prompt/system-prompt.ts';
import type { Agent } from '../agents/define-agent.ts';
import type {
  ResolverContext,
  RunnerCollaborators,
  Servers,
  LockedRunnerThread,
  RunnerMessage,
  RunnerThreads,
} from './runner-ports.ts';
import type { CapabilityResolver, SideChannels } from '../tools/capabilities.ts';
import { defineTool } from '../tools/define.ts';
import { ToolError } from '../tools/tool-error.ts';
import { ToolOutput, type Tool } from '../tools/tool.ts';
import { unlessAborted } from '../../shared/base/deadline.ts';
import { isDelta, type RunEvent } from '../../shared/contract/event.ts';
import { threadNotFound } from '../../shared/contract/thread/thread.ts';

export interface RunnerDefaultsOptions extends Omit<AgentEngineOptions, 'agents' | 'env'> {
  /** Who may be run. */
  readonly agents: readonly Agent[];
  /** What agents may name in `capabilities`, beside `agents`: it brings `run_agent`, which asks another of them. */
  readonly capabilities?: Readonly<Record<string, CapabilityResolver>>;
  readonly env?: AgentEngineOptions['env'];
}

/** What a runner works with by default. */
export interface RunnerDefaults extends RunnerCollaborators<AgentDefinition, TaskDefinition> {
  readonly threads: LocalThreads;
  readonly usage: RunnerCollaborators['usage'] & {
    /** What the runs of an agent have used together. */
    of(agentId: string): RunUsage;
  };
}

const longestAnswerMs = 86_400_000;

/** See `runnerDefaults` in the public door. */
export function runnerDefaultsWith({
  agents,
  capabilities,
  ...given
}: RunnerDefaultsOptions & Pick<AgentEngineOptions, 'env'>): RunnerDefaults {
  const known = new Map(agents.map((agent) => [agent.definition.id, agent]));
  const find = (agentId: string): Agent => {
    const agent = known.get(agentId);
    if (!agent) throw new RunError('validation', thereIsNo('agent', agentId, known.keys()));
    return agent;
  };
  const boundary = createBoundary({ ...given, config: parseConfig(given.env) });
  return {
    threads: localThreads(),
    agents: { load: (agentId) => find(agentId).definition },
    tasks: {
      async get(taskId) {
        const task = await given.loadTask?.(taskId);
        if (!task) throw new RunError('validation', `there is no task ${taskId}`);
        return task;
      },
    },
    buildSystemPrompt(definition, cwd, directories, { task, background = false }) {
      const build = find(definition.id).prompt ?? defaultPrompt;
      return build(definition, defined({ cwd: cwd || undefined, directories, background, task }));
    },
    capabilities: {
      resolve: (names, context) => ({
        ...resolved(names, context, { ...capabilities, agents: askOthers(context, agents) }),
        [context.agentId]: new OwnParts(find(context.agentId), context.threadId, context.background),
      }),
    },
    injections: { resolve: () => ({}) },
    engine: createAgentEngine({ ...given, agents }, boundary),
    usage: usageTotals(),
    postRun: { dispatch() {} },
    scrub: (error) => boundary.redactor.text(asRunError(error).message),
    workspace: { cwd: '', directories: [] },
  };
}

/** Each with the thread of the run; its reports reach the caller, too. */
function resolved(
  names: readonly string[],
  { agent, threadId, callbacks }: ResolverContext<AgentDefinition>,
  registered: Readonly<Record<string, CapabilityResolver>>,
): Servers {
  const servers: Record<string, CapabilityResolver> = {};
  for (const name of names) {
    const resolver = registered[name];
    if (resolver)
      servers[name] = async (run, signal) =>
        await resolver({ ...run, threadId, callbacks: both(run.callbacks, callbacks) }, signal);
    else if (agent.unknownCapability === 'fail')
      throw new RunError('unknown_capability', `there is no capability ${name}`);
  }
  return servers;
}

function both(one: SideChannels, other: SideChannels): SideChannels {
  return {
    sendFile: (file) => [one, other].forEach((channels) => channels.sendFile(file)),
    shareNote: (note) => [one, other].forEach((channels) => channels.shareNote(note)),
    changePin: () => [one, other].forEach((channels) => channels.changePin()),
    notifyUser: (message) => [one, other].forEach((channels) => channels.notifyUser(message)),
  };
}

/** The capability to ask the other agents of the runner, each in a thread beside this one, which goes on with every question. */
function askOthers(context: ResolverContext<AgentDefinition>, agents: readonly Agent[]): CapabilityResolver {
  const others = agents.map(({ definition }) => definition.id).filter((id) => id !== context.agentId);
  return () => (others.length === 0 ? undefined : { tools: [runAgentTool(context, others)] });
}

function runAgentTool({ threadId, askAgent }: ResolverContext<AgentDefinition>, others: readonly string[]): Tool {
  return defineTool({
    name: 'run_agent',
    description:
      'Asks another agent and returns its answer. It remembers what you asked it before in this conversation.',
    inputSchema: z.strictObject({
      agent: z.enum(others as [string, ...string[]]).describe('Whom to ask.'),
      message: z.string().min(1).describe('All that it needs to know.'),
    }),
    sideEffectClass: 'delegation',
    timeoutMs: longestAnswerMs,
    async execute({ agent, message }) {
      try {
        const { text } = await askAgent(agent, `${threadId}.${agent}`, message);
        // What it has read, in this thread of its own, is not known here.
        return new ToolOutput(text, { flow: { sources: [{ name: `agent:${agent}`, trust: 'external' }] } });
      } catch (error) {
        const { code, message: why } = asRunError(error);
        throw new ToolError(code === 'depth_limit' ? 'depth_limit' : 'execution_failed', why, { cause: error });
      }
    },
  });
}

function usageTotals(): RunnerDefaults['usage'] {
  const totals = new Map<string, RunUsage>();
  const of = (agentId: string) => totals.get(agentId) ?? emptyRunUsage;
  return { of, record: (agentId, _, used) => void totals.set(agentId, addRunUsage(of(agentId), used)) };
}

/** Threads that are kept; of those that are not locked the longest unused make room. */
const maxThreads = 1_000;
const maxEvents = 1_000;

/** The threads of a runner, and what is in them. */
export interface LocalThreads extends RunnerThreads {
  /** The messages, oldest first. Throws `not_found`. */
  messages(threadId: string): Promise<readonly RunnerMessage[]>;
  /** The last 1,000 events of its runs, without deltas. */
  events(threadId: string): readonly RunEvent[];
  /** Sets the task of the thread; null: none. Throws `not_found`. */
  update(threadId: string, patch: { readonly taskId: string | null }): Promise<void>;
}

interface Thread {
  readonly agentId: string;
  readonly messages: RunnerMessage[];
  readonly events: RunEvent[];
  sessionId?: string;
  taskId?: string | undefined;
  isLocked: boolean;
}

/** Threads for a runner, in memory: one run at a time, in the order of arrival. */
export function localThreads(): LocalThreads {
  const arrivals = new ArrivalLock();
  const threads = new Map<string, Thread>();

  function find(threadId: string): Thread {
    const thread = threads.get(threadId);
    if (!thread) throw threadNotFound(threadId);
    return thread;
  }

  function open(threadId: string, agentId: string): Thread {
    const thread = threads.get(threadId) ?? { agentId, messages: [], events: [], isLocked: false };
    if (thread.agentId !== agentId)
      throw new RunError('validation', `thread ${threadId} belongs to agent ${thread.agentId}, not to ${agentId}`);
    threads.delete(threadId);
    threads.set(threadId, thread);
    const idle = threads.size > maxThreads && [...threads].find(([, { isLocked }]) => !isLocked);
    if (idle) threads.delete(idle[0]);
    return thread;
  }

  return {
    async acquire(threadId, agentId, signal) {
      const release = await arrivals.enter(threadId, signal);
      if (!release) return undefined;
      try {
        return locked(open(threadId, agentId), release);
      } catch (error) {
        release();
        throw error;
      }
    },
    messages: async (threadId) => [...find(threadId).messages],
    events: (threadId) => threads.get(threadId)?.events ?? [],
    async update(threadId, { taskId }) {
      find(threadId).taskId = taskId ?? undefined;
    },
  };
}

function locked(thread: Thread, release: () => void): LockedRunnerThread {
  thread.isLocked = true;
  return {
    manifest: async () => defined({ sessionId: thread.sessionId, taskId: thread.taskId }),
    append: async (message) => void thread.messages.push(message),
    record(event) {
      if (isDelta(event.type)) return;
      thread.events.push(event);
      if (thread.events.length > maxEvents) thread.events.shift();
    },
    async update({ sessionId }) {
      if (sessionId !== undefined) thread.sessionId = sessionId;
    },
    async [Symbol.asyncDispose]() {
      thread.isLocked = false;
      release();
    },
  };
}

/** Locks by name: one owner at a time, in the order in which they asked. For one process. */
export class ArrivalLock {
  readonly #ends = new Map<string, Promise<void>>();

  /** Resolves with the release when all before are through; undefined when the signal is aborted first. */
  async enter(name: string, signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    const before = this.#ends.get(name) ?? Promise.resolve();
    const { promise: done, resolve: release } = Promise.withResolvers<void>();
    // A waiter that leaves ends at once, but those behind it still wait for those before it.
    const end = before.then(() => done);
    this.#ends.set(name, end);
    void end.then(() => this.#ends.get(name) === end && this.#ends.delete(name));
    if (await isReached(before, signal)) return release;
    release();
    return undefined;
  }
}

async function isReached(before: Promise<void>, signal: AbortSignal): Promise<boolean> {
  const reached = before.then(() => true);
  return await unlessAborted(reached, signal).catch(() => false);
}
