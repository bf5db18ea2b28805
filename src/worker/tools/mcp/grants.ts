import type { AgentDefinition } from '../../../shared/contract/agent/agent.ts';
import { serverPrefix, serverTool } from '../../../shared/contract/agent/mcp.ts';

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
  const known = Object.keys(mcpServers).join(', ') || 'none';
  return tools
    .filter((name) => name.startsWith(serverPrefix))
    .flatMap((name) => {
      const { server, tool } = serverTool(name);
      if (server === '' || tool === '') return [`tools: ${name} must be mcp:<server> or mcp:<server>/<tool>`];
      if (trust === 'sandbox') return [`tools: ${name} is not for an agent whose trust is sandbox`];
      // A capability may bring more servers.
      if (Object.hasOwn(mcpServers, server) || capabilities.length > 0) return [];
      return [`tools: there is no MCP server ${server}; known are ${known}`];
    });
}
