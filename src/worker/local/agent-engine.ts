import { systemClock } from '../../shared/base/clock.ts';
import { problemsOf } from '../../shared/base/problems.ts';
import { createProjector } from '../../shared/dialects/project.ts';
import { serverPrefix, mcpServers, type McpServer } from '../../shared/contract/agent/mcp.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { RunOutcomeView } from '../../shared/contract/run.ts';
import type { Boundary } from '../agents/credentials.ts';
import { createAgentWith } from './create-agent.ts';
import type { AgentHandle, AgentStream, CreateAgentOptions } from './agent-handle.ts';
import type { Agent } from '../agents/define-agent.ts';
import type { Engine, EngineCallbacks, EngineOptions, RunnerAgent, Servers } from './runner-ports.ts';
import { createInMemoryPorts } from './stores/in-memory.ts';
import type { CapabilityResolver } from '../tools/capabilities.ts';

/** The agent of a run with its own tools, servers and limits. It is among the servers of the run, under the agent's id. */
export class OwnParts {
  readonly agent: Agent;
  /** The name of a session that begins with this run. */
  readonly threadId: string;
  readonly background: boolean;

  constructor(agent: Agent, threadId: string, background: boolean) {
    this.agent = agent;
    this.threadId = threadId;
    this.background = background;
  }
}

export type AgentEngineOptions = Omit<CreateAgentOptions, 'capabilities'> & {
  readonly env: NonNullable<CreateAgentOptions['env']>;
};

const noDecision = { granted: false, reason: 'no person can decide here' } as const;

/**
 * An engine of agents in this process. A server is an `OwnParts`, a capability, or the configuration of an MCP server; a
 * session is a conversation in memory. What people would have to decide is denied, unless `onPending` asks a person.
 */
export function createAgentEngine(given: AgentEngineOptions, boundary: Boundary): Engine {
  const ports = createInMemoryPorts({ redactor: boundary.redactor, clock: given.clock ?? systemClock });
  return {
    async run(message, options, trust, sessionId, callbacks, abort) {
      const { own, capabilities, servers } = sorted(options.mcpServers);
      const id = sessionId ?? own.threadId;
      const handle = createAgentWith(agentFor(own.agent, options, trust, { capabilities, servers }), {
        ...given,
        agents: (given.agents ?? []).flatMap((other) => reachable(other, own.agent)),
        capabilities,
        onPending: async (item, runId) => (await given.onPending?.(item, runId)) ?? noDecision,
        session: { id, ports, boundary },
      });
      const isOtherModel = options.model !== own.agent.definition.model;
      const stream = handle.stream(message, {
        signal: abort.signal,
        overrides: {
          model: isOtherModel ? options.model : undefined,
          maxTurns: options.maxTurns,
          background: own.background || undefined,
        },
      });
      const { text, usage } = answerOf(await followed(handle, stream, callbacks));
      return { text, sessionId: id, usage };
    },
  };
}

interface Sorted {
  readonly own: OwnParts;
  readonly capabilities: Readonly<Record<string, CapabilityResolver>>;
  readonly servers: Readonly<Record<string, McpServer>>;
}

function sorted(all: Servers): Sorted {
  const entries = Object.entries(all);
  const own = entries.map(([, server]) => server).find((server) => server instanceof OwnParts);
  if (!own) throw new RunError('internal', 'the servers of a run are without what its agent brings');
  const isFunction = (server: unknown): server is CapabilityResolver => typeof server === 'function';
  const capabilities = entries.flatMap(([name, server]) => (isFunction(server) ? [[name, server] as const] : []));
  const others = entries.filter(([, server]) => !isFunction(server) && !(server instanceof OwnParts));
  const servers = mcpServers.safeParse(Object.fromEntries(others));
  if (!servers.success)
    throw new RunError('tool_unavailable', 'an MCP server is not valid', {
      details: problemsOf(servers.error, 'servers'),
    });
  return { own, capabilities: Object.fromEntries(capabilities), servers: servers.data };
}

/** The agent with the options of this turn. */
function agentFor(
  agent: Agent,
  { systemPrompt, agents }: EngineOptions,
  trust: RunnerAgent['trust'],
  { capabilities, servers }: Omit<Sorted, 'own'>,
): Agent {
  const { prompt: _, ...parts } = agent;
  const { definition } = agent;
  const granted = new Set([...definition.tools, ...Object.keys(servers).map((name) => `${serverPrefix}${name}`)]);
  return {
    ...parts,
    definition: {
      ...definition,
      instructions: systemPrompt,
      trust,
      subagents: [...agents],
      capabilities: Object.keys(capabilities),
      mcpServers: { ...definition.mcpServers, ...servers },
      tools: [...granted],
    },
  };
}

/** The other agent as this one may ask it or hand over to it. What it names in `capabilities` is not resolved for it here. */
function reachable(other: Agent, { definition }: Agent): Agent[] {
  const { id } = other.definition;
  const names = [...definition.subagents, ...definition.handoffs.map(({ agent }) => agent)];
  if (id === definition.id || !(names.includes(id) || names.includes('*'))) return [];
  return [{ ...other, definition: { ...other.definition, unknownCapability: 'skip' } }];
}

/** Passes every event of the run on until it ends. A run that waits for money is refused it: no person can decide. */
async function followed(handle: AgentHandle, stream: AgentStream, callbacks: EngineCallbacks): Promise<RunOutcomeView> {
  const emit = emitterFor(callbacks);
  for await (const event of stream) emit(event);
  const view = await stream.result;
  if (view.status !== 'suspended') return view;
  const refused = handle.resume(view.runId, 'reject');
  for await (const event of refused) emit(event);
  return await refused.result;
}

/** Calls what each event is in the dialect of callbacks, as far as it is the engine's to call. */
function emitterFor(callbacks: EngineCallbacks): (event: RunEvent) => void {
  const project = createProjector('callbacks', { tenant: 'default' });
  const { onThinking, onAssistantMessage, onToolUse, onToolUseSummary } = callbacks;
  const known = new Map<string, ((...args: never[]) => void) | undefined>(
    Object.entries({ onThinking, onAssistantMessage, onToolUse, onToolUseSummary }),
  );
  return (event) => {
    callbacks.onEvent(event);
    for (const { type, args } of project(event)) known.get(type)?.(...(args as never[]));
  };
}

function answerOf(view: RunOutcomeView): RunOutcomeView {
  if (view.status === 'completed' || view.status === 'degraded') return view;
  const { code = 'cancelled', message = 'the run was cancelled', details } = view.error ?? {};
  throw new RunError(code, message, { details });
}
