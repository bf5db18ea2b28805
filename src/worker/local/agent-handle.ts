import type { InputPart } from '../../shared/contract/input-parts.ts';
import type { Clock } from '../../shared/base/clock.ts';
import type { DecisionInput } from '../../shared/contract/control.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { RunOutcomeView, RunRequestInput } from '../../shared/contract/run.ts';
import type { AgentToolOptions } from '../agents/agent-tool.ts';
import type { Agent } from '../agents/define-agent.ts';
import type { LoadTask } from '../agents/load-agents.ts';
import type { Middleware } from '../llm/backends/middleware.ts';
import type { ModelResolver } from '../llm/backends/providers.ts';
import type { LlmProvider } from '../llm/provider.ts';
import type { FanOutDeps, FanOutResult } from '../orchestration/fan-out.ts';
import type { FanOutOptions, FanOutChild, Spent } from '../orchestration/fan-out-options.ts';
import type { CapabilityResolver } from '../tools/capabilities.ts';
import type { Tool } from '../tools/tool.ts';
import type { CompactionAnswer } from '../turn/compaction/policy.ts';
import type { OnPending } from './drive.ts';
import type { RunState } from './run-state.ts';
import { addUsage, zeroUsage } from '../../shared/contract/money.ts';
import { usageOfCost } from '../turn/listen.ts';
import { outcomeOfRun } from '../orchestration/fan-out-child.ts';

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
  /**
   * The time that its runs go by: retries, time limits, deadlines and waits. Default: the time of the system. For tests; see
   * `FakeClock` in `millrace/testing`.
   */
  readonly clock?: Clock;
  /** The tasks that its runs may work on, by id. Default: there are none. */
  readonly loadTask?: LoadTask;
  /** What the agent may name in `capabilities`, each with what it brings. */
  readonly capabilities?: Readonly<Record<string, CapabilityResolver>>;
  /**
   * Asked in place of ending as `suspended`, for each thing that a run waits for people to decide; `undefined` leaves it
   * waiting. A throw, and no answer within 300 s, deny it.
   */
  readonly onPending?: OnPending;
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

/** The decision with which a run goes on. */
export interface RunDirective {
  readonly directive?: DecisionInput;
  /** Who decides, for the audit trail. */
  readonly by?: string;
}

/** A run in progress: its events, and its result, which also resolves when the events are not read. */
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
  /** All that its model or its scripts may call. Those of MCP servers and capabilities are known only while a run goes on. */
  readonly tools: readonly ToolListing[];
  /** The same by when the model sees them: its own tools, other agents, handoffs and built-in ones. */
  readonly registry: {
    /** At once. */
    listEager(): readonly ToolListing[];
    /** Once it has found them with `tool_search`. */
    listDeferred(): readonly ToolListing[];
  };
  /** Starts a turn. One at a time per handle: a second throws `concurrent_run`. */
  stream(input: string | readonly InputPart[] | RunState, options?: AgentRunOptions & RunDirective): AgentStream;
  /**
   * The same, drained: resolves when the turn has ended, or waits for a decision (status `suspended`). A failed run does
   * not throw; see `status` and `error`.
   */
  run(
    input: string | readonly InputPart[] | RunState,
    options?: AgentRunOptions & RunDirective,
  ): Promise<RunOutcomeView>;
  /**
   * Goes on with a run of this handle that waits: for people, with their decision, or for money, over the cap for one step or
   * to its end. Undecided calls keep it waiting. Throws as `Millrace.decide` does.
   */
  resume(runId: string, decision: 'approve' | 'reject' | DecisionInput, by?: string): AgentStream;
  /**
   * Everything that a run of this handle needs to go on in another process, with `run(state, { directive })`. See
   * `runStateToJSON`. Throws `run_not_found`, and `validation` for a run in a thread: its conversation stays in this handle.
   */
  state(runId: string): RunState;
  /**
   * Summarises the older part of the conversation of the run that is in progress, before its next model call. Resolves
   * once that is done, so do not wait for it inside a tool; where nothing is done, with the reason. Needs `compaction`.
   */
  compact(): Promise<CompactionAnswer>;
  /** This agent as a tool of another one. See `DefinedAgent.toTool`. */
  toTool(options?: AgentToolOptions): Tool;
  /** The bytes behind a handle of a result. Kept as long as 256 MiB of newer ones leave room. */
  media(handle: string): { readonly mediaType: string; readonly bytes: Uint8Array } | undefined;
  /** Asks several agents and makes one answer of theirs, see `runFanOut`. No run of this handle is needed for it. */
  fanOut<T = string>(options: FanOutOptions<T>, deps?: FanOutDeps): Promise<FanOutResult<T>>;
}

/** What runs one input and shows how: an `AgentHandle`, or anything like it. */
export interface StreamingAgent {
  readonly id: string;
  stream(
    input: string,
    options: { readonly signal: AbortSignal },
  ): AsyncIterable<RunEvent> & { readonly result: Promise<RunOutcomeView> };
}

/** An agent of this process as a child of a fan-out. A handle has one run at a time: each child needs its own. */
export function childOf(
  agent: StreamingAgent,
  input: string,
  { origins }: Pick<FanOutChild, 'origins'> = {},
): FanOutChild {
  return {
    agentId: agent.id,
    ...(origins && { origins }),
    async invoke(signal, report) {
      const stream = agent.stream(input, { signal });
      let spent: Spent = { usage: zeroUsage, costMicrocents: 0, toolCalls: 0 };
      for await (const event of stream) {
        spent = after(spent, event);
        report(spent);
      }
      return outcomeOfRun(await stream.result, spent.toolCalls);
    },
  };
}

function after(spent: Spent, event: RunEvent): Spent {
  if (event.type === 'tool.execute.start' && event.parentToolCallId === undefined)
    return { ...spent, toolCalls: spent.toolCalls + 1 };
  if (event.type !== 'cost.updated') return spent;
  return { ...spent, usage: addUsage(spent.usage, usageOfCost(event)), costMicrocents: event.cumulativeCostMicrocents };
}
