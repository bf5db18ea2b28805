import { thereIsNo } from '../../shared/base/nearest.ts';
import { problemsOf } from '../../shared/base/problems.ts';
import type { z } from 'zod';
import type { AgentDefinition, AgentToolRule } from '../../shared/contract/agent/agent.ts';
import { systemClock, type Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { mcpServers, serverPrefix, type McpServer } from '../../shared/contract/agent/mcp.ts';
import type { ThreadManifest } from '../../shared/contract/thread/thread.ts';
import { clip } from '../../shared/base/text.ts';
import { isReservedName } from './names.ts';
import type { Tool } from './tool.ts';
import { within } from '../../shared/base/deadline.ts';

/** What a capability may emit to the subscribers of a run. Each becomes one event; none waits for an answer. */
export interface SideChannels {
  /** `capability.file_sent`. A path inside the workspace, or a handle of a result. */
  sendFile(file: {
    readonly path?: string;
    readonly handle?: string;
    readonly caption?: string;
    readonly fileType: string;
  }): void;
  /** `capability.note_shared`. */
  shareNote(note: { readonly title: string; readonly slug: string; readonly message?: string }): void;
  /** `capability.pin_changed`. */
  changePin(): void;
  /** `capability.user_notified`. */
  notifyUser(message: string): void;
}

/** The run that capabilities and injections are resolved for. All of them get the same object. */
export interface CapabilityContext {
  readonly agentId: string;
  readonly agent: AgentDefinition;
  readonly runId: string;
  readonly tenant: string;
  readonly threadId?: string;
  /** No user waits for this run. */
  readonly background: boolean;
  /** The folder that the agent was read from. Absent: it was given as an object. */
  readonly agentDir?: string;
  /** The folder that the agent's tools may read files of. */
  readonly workspaceDir?: string;
  /** The agent's `directories`, in full. */
  readonly directories: readonly string[];
  /** What is known about the thread that the run belongs to. */
  readonly manifest?: ThreadManifest;
  readonly callbacks: SideChannels;
  /** How many parents and handoffs came before this agent. */
  readonly askAgentDepth: number;
  /**
   * A tool that has another agent of this worker do the call. Each call is a child of the run: it is durable, any worker does it,
   * and this run pays for it. Default name: `subagent_<id>`. Throws `validation` for an agent that this worker does not have, and
   * for a name or a filter of no use.
   */
  readonly agentTool: (agentId: string, options?: AgentToolSettings) => Tool;
}

/** How the other agent looks as a tool, and what crosses to it. */
export type AgentToolSettings = Partial<Omit<AgentToolRule, 'agent'>> & { readonly name?: string };

/** What a capability brings to a run: servers by name, and tools. They need no grant: the capability is the grant. */
export interface CapabilityParts {
  readonly mcpServers?: z.input<typeof mcpServers>;
  readonly tools?: readonly Tool[];
}

/** Answers nothing where it does not apply to the run. Called once for each run that a worker acquires. */
export type CapabilityResolver = (
  context: CapabilityContext,
  signal: AbortSignal,
) => CapabilityParts | undefined | void | Promise<CapabilityParts | undefined | void>;

export interface ResolvedCapabilities {
  readonly mcpServers: Readonly<Record<string, McpServer>>;
  readonly tools: readonly Tool[];
}

type Named = Pick<AgentDefinition, 'capabilities' | 'unknownCapability'>;

/** The capabilities that the agents of a worker may name, and what is injected into the runs of every agent. */
export interface CapabilityRegistry {
  readonly names: readonly string[];
  /** Throws `validation` for a name that is taken or is not 1 to 128 of A-Z a-z 0-9 . _ - */
  register(name: string, resolver: CapabilityResolver): void;
  /** Adds what is injected: asked for each run, after its capabilities. Throws as `register` does. */
  inject(name: string, resolver: CapabilityResolver): void;
  /** Unknown names, for loading: problems unless the agent skips them, warnings when it does. */
  check(agent: Named): { readonly problems: readonly string[]; readonly warnings: readonly string[] };
  /** The names that this agent goes on without. */
  skipped(agent: Named): readonly string[];
  /**
   * Servers and tools of an agent's capabilities, in their order. Throws `unknown_capability` listing the known ones, unless
   * the agent skips it; `tool_unavailable` for a capability that fails or does not answer within 30 s; the signal's reason.
   */
  resolve(agent: Named, context: CapabilityContext, signal: AbortSignal): Promise<ResolvedCapabilities>;
  /** Servers and tools that are injected into this run. Throws as `resolve` does. */
  injections(context: CapabilityContext, signal: AbortSignal): Promise<ResolvedCapabilities>;
}

const resolveMs = 30_000;
const maxShownChars = 4_000;

/**
 * Makes an empty one.
 *
 * @example
 * const capabilities = createCapabilityRegistry();
 * capabilities.register('crm', ({ tenant }) => ({ mcpServers: { crm: { url: `https://crm.example.com/${tenant}/mcp` } } }));
 */
export function createCapabilityRegistry({ clock = systemClock }: { readonly clock?: Clock } = {}): CapabilityRegistry {
  const resolvers = new Map<string, CapabilityResolver>();
  const injected = new Map<string, CapabilityResolver>();
  const unknown = ({ capabilities }: Named) => [...new Set(capabilities)].filter((name) => !resolvers.has(name));
  const unknownText = (name: string) => thereIsNo('capability', name, resolvers.keys());

  async function resolveOne(
    what: string,
    resolver: CapabilityResolver,
    context: CapabilityContext,
    signal: AbortSignal,
  ): Promise<ResolvedCapabilities> {
    const settled = await within(resolveMs, (inner) => resolver(context, inner), clock, signal);
    signal.throwIfAborted();
    if (settled.kind === 'value') return checkedParts(what, settled.value ?? {});
    // The texts of our own errors are for operators; what other code throws may quote anything.
    const failure = settled.kind === 'threw' && settled.error instanceof RunError ? settled.error.message : 'it failed';
    const why = settled.kind === 'threw' ? failure : `it did not answer within ${resolveMs} ms`;
    const cause = settled.kind === 'threw' ? { cause: settled.error } : {};
    throw new RunError('tool_unavailable', `${what}: ${why}`, cause);
  }

  return {
    get names() {
      return [...resolvers.keys()];
    },
    register: (name, resolver) => add(resolvers, name, resolver, `capability ${name}`),
    inject: (name, resolver) => add(injected, name, resolver, `injection ${name}`),
    check(agent) {
      const texts = unknown(agent).map((name) => `capabilities: ${unknownText(name)}`);
      return agent.unknownCapability === 'skip' ? { problems: [], warnings: texts } : { problems: texts, warnings: [] };
    },
    skipped: (agent) => (agent.unknownCapability === 'skip' ? unknown(agent) : []),
    async resolve(agent, context, signal) {
      const [missing] = unknown(agent);
      if (missing !== undefined && agent.unknownCapability === 'fail')
        throw new RunError('unknown_capability', unknownText(missing));
      const named = [...new Set(agent.capabilities)].flatMap((name) => {
        const resolver = resolvers.get(name);
        return resolver ? [resolveOne(`capability ${name}`, resolver, context, signal)] : [];
      });
      return mergedParts(await Promise.all(named));
    },
    async injections(context, signal) {
      const all = [...injected].map(([name, resolver]) => resolveOne(`injection ${name}`, resolver, context, signal));
      return mergedParts(await Promise.all(all));
    },
  };
}

/** Later servers and tools take the place of earlier ones of the same name. */
export function mergedParts(all: readonly ResolvedCapabilities[]): ResolvedCapabilities {
  const tools = new Map(all.flatMap((parts) => parts.tools.map((tool) => [tool.name, tool])));
  return { mcpServers: Object.assign({}, ...all.map((parts) => parts.mcpServers)), tools: [...tools.values()] };
}

function add(to: Map<string, CapabilityResolver>, name: string, resolver: CapabilityResolver, what: string): void {
  if (!/^[A-Za-z0-9._-]{1,128}$/.test(name))
    throw new RunError('validation', `${what}: its name must be 1 to 128 of A-Z a-z 0-9 . _ -`);
  if (to.has(name)) throw new RunError('validation', `${what} is there already`);
  if (typeof resolver !== 'function') throw new RunError('validation', `${what}: must be a function`);
  to.set(name, resolver);
}

function checkedParts(what: string, parts: CapabilityParts): ResolvedCapabilities {
  const servers = mcpServers.safeParse(parts.mcpServers ?? {});
  const taken = (parts.tools ?? []).find(({ name }) => isReservedName(name))?.name;
  if (taken !== undefined)
    throw new RunError('tool_unavailable', `${what}: the name of its tool ${taken} is reserved; give it another one`);
  if (servers.success) return { mcpServers: servers.data, tools: parts.tools ?? [] };
  const problems = problemsOf(servers.error, 'servers');
  throw new RunError('tool_unavailable', `${what}: its servers are not valid:\n  ${problems.join('\n  ')}`, {
    details: problems,
  });
}

const short = <T extends string | undefined>(text: T) => (text === undefined ? text : clip(text, maxShownChars)) as T;

/**
 * The side channels of one run. Texts are cut after 4,000 characters. `emit` stamps each event with the run, its agent and
 * its thread.
 */
export function sideChannels(emit: (event: EventBody) => void): SideChannels {
  return {
    sendFile: ({ path, handle, caption, fileType }) =>
      emit({
        type: 'capability.file_sent',
        fileType: short(fileType),
        path: short(path),
        handle: short(handle),
        caption: short(caption),
      }),
    shareNote: ({ title, slug, message }) =>
      emit({ type: 'capability.note_shared', title: short(title), slug: short(slug), message: short(message) }),
    changePin: () => emit({ type: 'capability.pin_changed' }),
    notifyUser: (message) => emit({ type: 'capability.user_notified', message: short(message) }),
  };
}

/**
 * The grants and servers of an agent with those of its capabilities. A server that only a capability brings is granted as a
 * whole, unless the agent names tools of it. An agent that is to stay in its sandbox gets none.
 */
export function withCapabilities<Agent extends Pick<AgentDefinition, 'tools' | 'mcpServers' | 'trust'>>(
  agent: Agent,
  { mcpServers: brought }: Pick<ResolvedCapabilities, 'mcpServers'>,
): Agent {
  if (agent.trust === 'sandbox') return agent;
  const isNamed = (server: string) =>
    agent.tools.some((tool) => tool === `${serverPrefix}${server}` || tool.startsWith(`${serverPrefix}${server}/`));
  const granted = Object.keys(brought).filter((server) => !isNamed(server));
  return {
    ...agent,
    mcpServers: { ...agent.mcpServers, ...brought },
    tools: [...agent.tools, ...granted.map((server) => `${serverPrefix}${server}`)],
  };
}
