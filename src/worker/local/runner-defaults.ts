import { z } from 'zod';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { defined } from '../../shared/base/collections.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { asRunError, RunError } from '../../shared/base/errors.ts';
import { type RunUsage, addRunUsage, emptyRunUsage } from '../../shared/contract/money.ts';
import { parseConfig } from '../../shared/contract/config.ts';
import type { TaskDefinition } from '../../shared/contract/orchestration/task-definition.ts';
import { createBoundary } from '../agents/boundary.ts';
import { createAgentEngine, OwnParts, type AgentEngineOptions } from './agent-engine.ts';
import { defaultPrompt } from '../prompt/system-prompt.ts';
import type { Agent } from '../agents/define-agent.ts';
import type { ResolverContext, RunnerCollaborators, Servers } from './runner-ports.ts';
import { localThreads, type LocalThreads } from './runner-threads.ts';
import { inMemoryThreads } from './stores/in-memory-threads.ts';
import type { CapabilityResolver, SideChannels } from '../tools/capabilities.ts';
import { defineTool } from '../tools/define.ts';
import { ToolError } from '../tools/tool-error.ts';
import type { Tool } from '../tools/tool.ts';

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
    if (!agent)
      throw new RunError('validation', `there is no agent ${agentId}; known are ${[...known.keys()].join(', ')}`);
    return agent;
  };
  const boundary = createBoundary({ ...given, config: parseConfig(given.env) });
  return {
    threads: localThreads(inMemoryThreads(systemClock), systemClock),
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
    sendFile(file) {
      one.sendFile(file);
      other.sendFile(file);
    },
    shareNote(note) {
      one.shareNote(note);
      other.shareNote(note);
    },
    changePin() {
      one.changePin();
      other.changePin();
    },
    notifyUser(message) {
      one.notifyUser(message);
      other.notifyUser(message);
    },
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
        return (await askAgent(agent, `${threadId}.${agent}`, message)).text;
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
