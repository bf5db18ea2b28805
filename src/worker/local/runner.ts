import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { maxDepth } from '../../shared/contract/run.ts';
import type { SideChannels } from '../tools/capabilities.ts';
import type {
  EngineCallbacks,
  EngineOptions,
  EngineResult,
  LockedRunnerThread,
  ResolverContext,
  RunAgentOverrides,
  RunnerAgent,
  RunnerCallbacks,
  RunnerCollaborators,
} from './runner-ports.ts';

/** Runs turns of conversations in this process. */
export interface AgentRunner {
  /**
   * A message in, a response out, one turn at a time for each thread. Aborted it resolves with an empty text; the thread then
   * has `(stopped by user)`. Where assembling the turn or the engine fails, the thread has `(error: …)`, `onError` is called
   * and the error thrown.
   */
  readonly runAgent: (
    agentId: string,
    threadId: string,
    message: string,
    callbacks?: RunnerCallbacks,
    overrides?: RunAgentOverrides,
    abortController?: AbortController,
  ) => Promise<{ readonly text: string }>;
}

interface Asked {
  readonly agentId: string;
  readonly threadId: string;
  readonly message: string;
  readonly callbacks: RunnerCallbacks;
  readonly overrides: RunAgentOverrides;
  readonly abort: AbortController;
  /** Threads of the runs that wait for this one. */
  readonly waiting: readonly string[];
}

/**
 * Makes a runner of its collaborators. It is a sequence and nothing else: prompts, servers, permissions and delivery are theirs.
 */
export function createRunner<Agent extends RunnerAgent, Task>(work: RunnerCollaborators<Agent, Task>): AgentRunner {
  return {
    runAgent: async (agentId, threadId, message, callbacks = {}, overrides = {}, abort = new AbortController()) =>
      await run({ agentId, threadId, message, callbacks, overrides, abort, waiting: [] }, work),
  };
}

type Answer = { readonly text: string };

async function run<Agent extends RunnerAgent, Task>(asked: Asked, work: RunnerCollaborators<Agent, Task>) {
  const { agentId, threadId, message, callbacks, abort } = asked;
  // Locked until all of it is done, failures included.
  await using thread = await work.threads.acquire(threadId, agentId, abort.signal);
  if (!thread) return { text: '' };
  const agent = await work.agents.load(agentId);
  const { sessionId, taskId } = await thread.manifest();
  await thread.append({ role: 'user', text: message });
  let result: EngineResult;
  try {
    const options = await engineOptions(agent, taskId, asked, work);
    result = await work.engine.run(message, options, agent.trust, sessionId, engineCallbacks(callbacks, thread), abort);
    abort.signal.throwIfAborted();
  } catch (error) {
    if (abort.signal.aborted) return await stopped(thread);
    const shown = work.scrub(error);
    await thread.append({ role: 'assistant', text: `(error: ${shown})` });
    callbacks.onError?.(agentId, threadId, shown);
    throw error;
  }
  const { text, usage } = result;
  await thread.append(defined({ role: 'assistant', text, emptyResponse: text === '' ? true : undefined }));
  await thread.update(defined({ sessionId: result.sessionId }));
  if (usage) await work.usage.record(agentId, threadId, usage);
  callbacks.onResponse?.(agentId, threadId, text);
  void (async () => await work.postRun.dispatch(agentId, threadId))().catch(() => {});
  return { text };
}

/** What the engine gets: the prompt first, then the servers. */
async function engineOptions<Agent extends RunnerAgent, Task>(
  agent: Agent,
  taskId: string | undefined,
  asked: Asked,
  work: RunnerCollaborators<Agent, Task>,
): Promise<EngineOptions> {
  const { overrides } = asked;
  const { cwd, directories } = work.workspace;
  const task = taskId === undefined ? undefined : await work.tasks.get(taskId);
  const about = { task, background: overrides.background };
  const systemPrompt = await work.buildSystemPrompt(agent, cwd, directories, about);
  const context = contextOf(agent, asked, work);
  const brought = await work.capabilities.resolve(agent.capabilities, context);
  const injected = await work.injections.resolve(overrides, context);
  return {
    ...work.workspace,
    systemPrompt,
    model: overrides.model ?? agent.model,
    maxTurns: overrides.maxTurns,
    agents: agent.subagents,
    mcpServers: { ...brought, ...injected },
  };
}

function contextOf<Agent extends RunnerAgent, Task>(
  agent: Agent,
  asked: Asked,
  work: RunnerCollaborators<Agent, Task>,
): ResolverContext<Agent> {
  const { agentId, threadId, callbacks, overrides, waiting } = asked;
  return {
    agent,
    agentId,
    threadId,
    background: overrides.background ?? false,
    callbacks: channelsTo(callbacks, agentId, threadId),
    askAgentDepth: waiting.length,
    askAgent: async (target, targetThread, question) =>
      await run(questionTo(target, targetThread, question, asked), work),
  };
}

async function stopped(thread: LockedRunnerThread): Promise<Answer> {
  await thread.append({ role: 'assistant', text: '(stopped by user)' });
  await thread.update({});
  return { text: '' };
}

/** The run that another one asks for: its answer goes back to that one only. */
function questionTo(agentId: string, threadId: string, message: string, asking: Asked): Asked {
  const { abort, overrides } = asking;
  const waiting = [...asking.waiting, asking.threadId];
  if (waiting.length > maxDepth)
    throw new RunError('depth_limit', `agents may work for each other at most ${maxDepth} deep`);
  if (waiting.includes(threadId))
    throw new RunError('concurrent_run', `thread ${threadId} is locked by a run that waits for this answer`);
  const { onResponse: _, ...callbacks } = asking.callbacks;
  const { background } = overrides;
  return { agentId, threadId, message, callbacks, overrides: defined({ background }), abort, waiting };
}

/** The caller's own, as they are; and its events are kept on the way. */
function engineCallbacks(callbacks: RunnerCallbacks, thread: LockedRunnerThread): EngineCallbacks {
  const { onThinking, onAssistantMessage, onToolUse, onToolUseSummary, onEvent } = callbacks;
  return {
    ...defined({ onThinking, onAssistantMessage, onToolUse, onToolUseSummary }),
    onEvent(event) {
      thread.record(event);
      onEvent?.(event);
    },
  };
}

/** What capabilities report, with the agent and thread that they work for. */
function channelsTo(callbacks: RunnerCallbacks, agentId: string, threadId: string): SideChannels {
  const { onFileSend, onShareNote, onPinChange, onNotifyUser } = callbacks;
  return {
    sendFile: ({ path, handle, caption, fileType }) =>
      onFileSend?.(agentId, threadId, path ?? handle ?? '', caption, fileType),
    shareNote: ({ title, slug, message }) => onShareNote?.(agentId, threadId, title, slug, message),
    changePin: () => onPinChange?.(agentId),
    notifyUser: (message) => onNotifyUser?.(agentId, threadId, message),
  };
}
