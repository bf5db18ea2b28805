import { thereIsNo } from '../../shared/base/nearest.ts';
import { serverPrefix, serverTool } from '../../shared/contract/agent/mcp.ts';
import { reservedToolNames } from '../../shared/contract/reserved.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Tool, ToolSource } from './tool.ts';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';

/** Tools of this package that an agent names, or that a run is given. Code of an author's own may stand in for them. */
const named = ['ask_user', 'http_request', 'read_file', 'progress_write', 'progress_read', 'notify_user'] as const;

const maxNameChars = 64;

/** Runs scripts of the model, which call tools themselves. */
export const scriptToolName = 'code_execute';

export const handoffPrefix = 'transfer_to_';

const reserved: ReadonlySet<string> = new Set(reservedToolNames);
const ours: ReadonlySet<string> = new Set([...reservedToolNames, ...named]);

export function isReservedName(name: string): boolean {
  return reserved.has(name);
}

function isFromPackage(name: string): boolean {
  return ours.has(name) || name.startsWith(handoffPrefix);
}

/**
 * May a server's tool be called so? Not like a tool of this package, whether the agent has that tool or not, not like a
 * handoff, and not like a tool that has the name of another server in front.
 */
export function isFreeForServers(name: string): boolean {
  return !isFromPackage(name) && !name.includes('__');
}

/** The names by which configuration means a server's tool: by the server's own name for it, and by its safe form. */
export function qualifiedNames({ server, tool, safeName }: Omit<ToolSource, 'definition'>): readonly string[] {
  return [...new Set([tool, safeName])].map((name) => `${serverPrefix}${server}/${name}`);
}

/** A server's name for a tool in letters that a tool's name may have. */
export function safeName(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, maxNameChars);
}

/** What two tools of one name come to. See `toolCollisions` of the agent. */
export type Collisions = 'auto-prefix' | 'priority' | 'manual';

/**
 * Gives each tool a name of its own: the first tool of a name keeps it, and a server's tool never gets a name that is
 * reserved. Throws `validation` naming every name that is given twice where collisions are the author's to solve.
 */
export function distinctlyNamed(given: readonly Tool[], collisions: Collisions): readonly Tool[] {
  const byName = new Map<string, Tool>();
  const doubles = new Set<string>();
  for (const tool of given) {
    const { name, source } = tool;
    const isFree = !byName.has(name) && (source === undefined || isFreeForServers(name));
    if (isFree) byName.set(name, tool);
    else if (collisions === 'manual') doubles.add(name);
    else if (collisions === 'auto-prefix') {
      const free = freeName(tool, byName);
      byName.set(free, { ...tool, name: free });
    }
  }
  if (doubles.size > 0) throw new RunError('validation', `tools with the same name: ${[...doubles].join(', ')}`);
  return [...byName.values()];
}

function freeName({ source, trust, name }: Tool, taken: ReadonlyMap<string, unknown>): string {
  const prefixed = `${source?.server ?? trust}__${name}`.slice(0, maxNameChars);
  for (let number = 1; ; number++) {
    const suffix = number === 1 ? '' : `_${number}`;
    const candidate = prefixed.slice(0, maxNameChars - suffix.length) + suffix;
    if (!taken.has(candidate)) return candidate;
  }
}

/** What an agent may use of a server: all of it, or these tools. */
export type ServerGrant = 'all' | ReadonlySet<string>;

/** The grants of an agent by server, in the order in which it names them. */
export function grantsOf({ tools }: Pick<AgentDefinition, 'tools'>): ReadonlyMap<string, ServerGrant> {
  const grants = new Map<string, ServerGrant>();
  for (const name of tools) {
    if (!name.startsWith(serverPrefix)) continue;
    const { server, tool } = serverTool(name);
    const known = grants.get(server);
    if (tool === undefined || known === 'all') grants.set(server, 'all');
    else grants.set(server, new Set([...(known ?? []), tool]));
  }
  return grants;
}

/** What is wrong with the grants of an agent as far as it shows before any server runs. */
export function mcpGrantProblems({
  tools,
  mcpServers,
  capabilities,
  trust,
}: Pick<AgentDefinition, 'tools' | 'mcpServers' | 'capabilities' | 'trust'>): string[] {
  return tools
    .filter((name) => name.startsWith(serverPrefix))
    .flatMap((name) => {
      const { server, tool } = serverTool(name);
      if (server === '' || tool === '') return [`tools: ${name} must be mcp:<server> or mcp:<server>/<tool>`];
      if (trust === 'sandbox') return [`tools: ${name} is not for an agent whose trust is sandbox`];
      // A capability may bring more servers.
      if (Object.hasOwn(mcpServers, server) || capabilities.length > 0) return [];
      return [`tools: ${thereIsNo('MCP server', server, Object.keys(mcpServers))}`];
    });
}
