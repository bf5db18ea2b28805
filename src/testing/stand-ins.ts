import { longestTimerMs, type Clock } from '../shared/base/clock.ts';
import { RunError } from '../shared/base/errors.ts';
import type { AgentDefinition } from '../shared/contract/agent/agent.ts';
import type { RunEvent } from '../shared/contract/event.ts';
import { serverPrefix, serverTool } from '../shared/contract/agent/mcp.ts';
import type { LoadedAgent } from '../worker/agents/loaded-agent.ts';
import type { ToolServices } from '../worker/agents/toolkit.ts';
import type { TestSeams } from '../worker/local/create-agent.ts';
import { ToolOutput, type Tool, type ToolContext } from '../worker/tools/tool.ts';
import { grantsOf } from '../worker/tools/names.ts';
import { callKey, CurrentSteps } from './current-steps.ts';

/** Takes any function of the arguments, whatever type it gives them: they have passed the tool's own schema. */
interface Bivariant {
  run(args: Readonly<Record<string, unknown>>, context: ToolContext): unknown;
}

/**
 * Runs in place of a tool's code, with arguments that the tool's schema has checked; what it answers passes the tool's
 * `outputSchema`, and what it throws fails the call as the tool's own error does. `hangs`: never answers, until the call is
 * cancelled or its time is over.
 */
export type StandIn = Bivariant['run'] | 'hangs';

/** A call for which the code of the tool, or its stand-in, has run. It has a result once it has answered. */
interface RanCall {
  result?: unknown;
}

/** What tools did, by run, step and call. */
export class ToolLog {
  readonly #steps = new CurrentSteps();
  readonly #ran = new Map<string, RanCall>();

  /** Gets the events of the runs, so that it knows at which step they are. */
  saw(event: RunEvent): void {
    this.#steps.saw(event);
  }

  /** Undefined: no code ran for this call. */
  of(call: Parameters<typeof callKey>[0]): Readonly<RanCall> | undefined {
    return this.#ran.get(callKey(call));
  }

  started({ runId, toolCallId }: ToolContext): RanCall {
    const ran = {};
    this.#ran.set(callKey({ runId, stepNumber: this.#steps.of(runId), toolCallId }), ran);
    return ran;
  }
}

/** What stands in for the code of every tool, whatever its name, so that nothing leaves the process. */
export interface AllTools {
  inPlaceOf(tool: Tool): Exclude<StandIn, 'hangs'>;
  onLoaded(loaded: ReadonlyMap<string, LoadedAgent>): void;
  /** The tools of an MCP server, as it offers them to an agent. It is not contacted. */
  toolsOf(server: string, agent: AgentDefinition): readonly Tool[];
}

/** What stands in for what. */
export interface StandIns {
  readonly tools: Readonly<Record<string, StandIn>>;
  /** By server: the tools that an MCP server offers in place of the real one, which is not contacted. */
  readonly servers: Readonly<Record<string, readonly Tool[]>>;
  readonly all?: AllTools | undefined;
}

/** The seams of an agent through which stand-ins take their places and every tool is watched. */
export function standInSeams(standIns: StandIns, log: ToolLog, clock: Clock): Pick<TestSeams, 'agents' | 'services'> {
  const { all } = standIns;
  const replaced = (tool: Tool) => {
    const standIn = all && hasCode(tool) ? all.inPlaceOf(tool) : standIns.tools[tool.name];
    return watched(tool, standInFor(tool, standIn, clock), log);
  };
  return {
    agents(loaded) {
      checkNames(loaded, standIns);
      all?.onLoaded(loaded);
      return new Map([...loaded].map(([id, agent]) => [id, { ...agent, tools: agent.tools.map(replaced) }]));
    },
    services: (services) => ({ ...services, openServers: serversWith(services, standIns, replaced) }),
  };
}

/** A tool with the same name, schema, rules and limits, and other code. */
function watched(tool: Tool, execute: Tool['execute'], log: ToolLog): Tool {
  if (!hasCode(tool)) return tool;
  return {
    ...tool,
    async execute(args, context) {
      const ran = log.started(context);
      const value = await execute(args, context);
      ran.result = value instanceof ToolOutput ? value.value : value;
      return value;
    },
  };
}

function standInFor(tool: Tool, standIn: StandIn | undefined, clock: Clock): Tool['execute'] {
  if (standIn === undefined) return (args, context) => tool.execute(args, context);
  const run = standIn === 'hangs' ? (_: unknown, { signal }: ToolContext) => never(clock, signal) : standIn;
  return async (args, context) => {
    const value = run(args as Readonly<Record<string, unknown>>, context);
    return tool.checkOutput ? await tool.checkOutput(value) : await value;
  };
}

async function never(clock: Clock, signal: AbortSignal): Promise<never> {
  for (;;) await clock.sleep(longestTimerMs, signal);
}

/** Opens the servers that have no stand-in for real, and those that have one here. */
function serversWith(
  { openServers }: ToolServices,
  { servers, all }: StandIns,
  replaced: (tool: Tool) => Tool,
): NonNullable<ToolServices['openServers']> {
  const isReal = (name: string) =>
    !name.startsWith(serverPrefix) || !(all || Object.hasOwn(servers, serverTool(name).server));
  return async (agent, run, signal) => {
    const opened = await openServers?.({ ...agent, tools: agent.tools.filter(isReal) }, run, signal);
    const own = [...grantsOf(agent)].flatMap(([server, granted]) => {
      const offered = all?.toolsOf(server, agent) ?? (Object.hasOwn(servers, server) ? (servers[server] ?? []) : []);
      return offered
        .filter(({ name }) => granted === 'all' || granted.has(name))
        .map((tool) => replaced({ ...tool, trust: 'mcp-derived', source: sourceOf(tool, server) }));
    });
    let listed: readonly Tool[] | undefined;
    let tools: readonly Tool[] = [];
    return {
      tools() {
        const real = opened?.tools() ?? none;
        if (real !== listed) tools = [...real.map(replaced), ...own];
        listed = real;
        return tools;
      },
      resultReaders: opened?.resultReaders ?? [],
      [Symbol.asyncDispose]: async () => await opened?.[Symbol.asyncDispose](),
    };
  };
}

const none: readonly Tool[] = [];

function sourceOf({ name }: Tool, server: string): NonNullable<Tool['source']> {
  return { server, tool: name, safeName: name, definition: `the stand-in of ${server}` };
}

/** Throws `validation` for a stand-in of what no agent has. */
function checkNames(loaded: ReadonlyMap<string, LoadedAgent>, { tools, servers }: StandIns): void {
  const agents = [...loaded.values()];
  const granted = new Set(agents.flatMap(({ definition }) => [...grantsOf(definition).keys()]));
  const stranger = Object.keys(servers).find((server) => !granted.has(server));
  if (stranger !== undefined) throw unknownName('servers', 'MCP server', stranger, granted);
  const own = agents.flatMap((agent) => agent.tools);
  const withoutCode = own.find((tool) => Object.hasOwn(tools, tool.name) && !hasCode(tool));
  if (withoutCode) {
    const way = withoutCode.asks ? 'answer it with `people`' : 'give its agent answers of the model';
    throw new RunError('validation', `tools: ${withoutCode.name} has no code to stand in for: ${way}`);
  }
  // What real servers and capabilities bring is known only while a run goes on.
  const isOpen = ({ definition }: LoadedAgent) => definition.capabilities.length > 0;
  if (agents.some(isOpen) || [...granted].some((server) => !Object.hasOwn(servers, server))) return;
  const known = new Set([...own, ...Object.values(servers).flat()].map(({ name }) => name));
  const unknown = Object.keys(tools).find((name) => !known.has(name));
  if (unknown !== undefined) throw unknownName('tools', 'tool', unknown, known);
}

/** Calls of other tools are done by other runs, by people, or by the loop. */
function hasCode({ delegate, asks, handoff }: Tool): boolean {
  return delegate === undefined && asks === undefined && handoff === undefined;
}

function unknownName(option: string, kind: string, name: string, known: ReadonlySet<string>): RunError {
  const names = [...known].join(', ') || 'none';
  return new RunError('validation', `${option}: no agent of this test has ${kind} ${name}; known are ${names}`);
}
