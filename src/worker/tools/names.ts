import { serverPrefix } from '../../shared/contract/agent/mcp.ts';

/** Tools that this package adds by itself where an agent needs them: no other tool may have their names. */
const added = [
  'tool_search',
  'read_result',
  'read_skill',
  'code_execute',
  'code_search',
  'list_agents',
  'ask_agent',
] as const;

/** Tools of this package that an agent names, or that a run is given. Code of an author's own may stand in for them. */
const named = ['ask_user', 'http_request', 'read_file', 'progress_write', 'progress_read', 'notify_user'] as const;

/** What the names of handoffs begin with. */
export const handoffPrefix = 'transfer_to_';

const reserved: ReadonlySet<string> = new Set(added);
const ours: ReadonlySet<string> = new Set([...added, ...named]);

/** Does this name belong to a tool that this package adds by itself? */
export function isReservedName(name: string): boolean {
  return reserved.has(name);
}

/** Is there a tool of this package that is called so? */
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
export function qualifiedNames({
  server,
  tool,
  safeName,
}: {
  readonly server: string;
  readonly tool: string;
  readonly safeName: string;
}): readonly string[] {
  return [...new Set([tool, safeName])].map((name) => `${serverPrefix}${server}/${name}`);
}
