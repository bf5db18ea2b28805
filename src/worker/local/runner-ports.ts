import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { RunUsage } from '../../shared/contract/money.ts';
import type { SideChannels } from '../tools/capabilities.ts';

/** How one run executes. Never what the agent is. */
export interface RunAgentOverrides {
  readonly model?: string;
  readonly maxTurns?: number;
  /** No person waits for this run. */
  readonly background?: boolean;
}

/** What the caller of a run gets while it goes on. The runner knows no other receiver. */
export interface RunnerCallbacks {
  readonly onThinking?: () => void;
  /** The whole text of a step. */
  readonly onAssistantMessage?: (text: string) => void;
  readonly onToolUse?: (toolName: string, input: Record<string, unknown>, summary: string) => void;
  /** What the calls of a step came to, a line each, once the step is complete. Not of steps without calls. */
  readonly onToolUseSummary?: (summary: string) => void;
  /** Every event of the engine, as it is. */
  readonly onEvent?: (event: RunEvent) => void;
  /** The answer, once it is in the thread. */
  readonly onResponse?: (agentId: string, threadId: string, text: string) => void;
  /** What went wrong, scrubbed. The run then rejects. */
  readonly onError?: (agentId: string, threadId: string, error: string) => void;
  /** A path in the workspace, or the handle of a result. */
  readonly onFileSend?: (
    agentId: string,
    threadId: string,
    filePath: string,
    caption: string | undefined,
    fileType: string,
  ) => void;
  readonly onShareNote?: (
    agentId: string,
    threadId: string,
    title: string,
    slug: string,
    message: string | undefined,
  ) => void;
  readonly onPinChange?: (agentId: string) => void;
  readonly onNotifyUser?: (agentId: string, threadId: string, message: string) => void;
}

/** What an engine calls. They are the caller's own, but for `onEvent`, which also keeps the event in the thread. */
export type EngineCallbacks = Pick<
  RunnerCallbacks,
  'onThinking' | 'onAssistantMessage' | 'onToolUse' | 'onToolUseSummary'
> &
  Required<Pick<RunnerCallbacks, 'onEvent'>>;

/** What the runner reads of an agent. */
export type RunnerAgent = Pick<AgentDefinition, 'id' | 'model' | 'capabilities' | 'subagents' | 'trust'>;

/** What the runner reads of a thread's manifest. */
export interface RunnerManifest {
  /** What the engine remembers of the conversation, by the name that it gave it. */
  readonly sessionId?: string;
  readonly taskId?: string;
}

/** A message of a thread. */
export interface RunnerMessage {
  readonly role: 'user' | 'assistant';
  readonly text: string;
  /** The engine answered, with nothing. */
  readonly emptyResponse?: true;
}

/** A thread that one run has locked. Disposing of it releases the lock to the next waiter. */
export interface LockedRunnerThread extends AsyncDisposable {
  manifest(): Promise<RunnerManifest>;
  append(message: RunnerMessage): Promise<void>;
  /** Keeps an event of the engine beside the messages. Returns at once. */
  record(event: RunEvent): void;
  /** Sets the time of the last change, and the session where there is a new one. */
  update(change: { readonly sessionId?: string }): Promise<void>;
}

export interface RunnerThreads {
  /** Resolves in the order in which callers asked. Undefined: the signal was aborted before that. */
  acquire(threadId: string, agentId: string, signal: AbortSignal): Promise<LockedRunnerThread | undefined>;
}

/** MCP servers by name. What they are is between those who resolve them and the engine. */
export type Servers = Readonly<Record<string, unknown>>;

/** The run that servers are resolved for. */
export interface ResolverContext<Agent> {
  readonly agent: Agent;
  readonly agentId: string;
  readonly threadId: string;
  readonly background: boolean;
  /** Reach the caller of the run, with its agent and thread. */
  readonly callbacks: SideChannels;
  /** How many runs wait for this one: the run that asked for it, the run that asked for that one, and so on. */
  readonly askAgentDepth: number;
  /**
   * Has another agent answer in a thread of its own, with the callbacks and the abort of this run. Its answer is not delivered,
   * but returned. Throws `depth_limit` from the fourth run on, `concurrent_run` for a thread that a waiting run has locked, and
   * what the run throws.
   */
  readonly askAgent: (agentId: string, threadId: string, message: string) => Promise<{ readonly text: string }>;
}

export interface EngineOptions {
  readonly cwd: string;
  readonly directories: readonly string[];
  readonly systemPrompt: string;
  readonly model: string;
  readonly maxTurns: number | undefined;
  readonly agents: readonly string[];
  readonly mcpServers: Servers;
}

export interface EngineResult {
  readonly text: string;
  readonly sessionId?: string | undefined;
  readonly usage?: RunUsage | undefined;
}

/** What executes a turn. The runner is its only caller. */
export interface Engine {
  run(
    message: string,
    options: EngineOptions,
    trust: RunnerAgent['trust'],
    sessionId: string | undefined,
    callbacks: EngineCallbacks,
    abort: AbortController,
  ): Promise<EngineResult>;
}

/** Everything that the runner touches and knows nothing about. Each may be replaced. */
export interface RunnerCollaborators<Agent extends RunnerAgent = RunnerAgent, Task = unknown> {
  readonly threads: RunnerThreads;
  readonly agents: { load(agentId: string): Promise<Agent> | Agent };
  readonly tasks: { get(taskId: string): Promise<Task | undefined> | Task | undefined };
  /** Answers the whole system prompt: nothing is added to it. */
  readonly buildSystemPrompt: (
    agent: Agent,
    cwd: string,
    directories: readonly string[],
    about: { readonly task: Task | undefined; readonly background: boolean | undefined },
  ) => Promise<string> | string;
  readonly capabilities: {
    resolve(names: readonly string[], context: ResolverContext<Agent>): Promise<Servers> | Servers;
  };
  /** Replace what the capabilities bring under the same names. */
  readonly injections: {
    resolve(overrides: RunAgentOverrides, context: ResolverContext<Agent>): Promise<Servers> | Servers;
  };
  readonly engine: Engine;
  readonly usage: { record(agentId: string, threadId: string, usage: RunUsage): Promise<void> | void };
  /** Starts the post-run work. The runner does not wait for it and ignores its failures. */
  readonly postRun: { dispatch(agentId: string, threadId: string): Promise<void> | void };
  /** An error as it may be shown. */
  readonly scrub: (error: unknown) => string;
  readonly workspace: { readonly cwd: string; readonly directories: readonly string[] };
}
