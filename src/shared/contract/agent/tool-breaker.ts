import { sha256 } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';

const prefix = 'tool:';

/** Whose tool it is. `definition`: digest of the server's definition. */
export type ToolOwner =
  | { readonly kind: 'agent'; readonly agentId: string; readonly tool: string }
  | {
      readonly kind: 'server';
      readonly server: string;
      readonly definition: string;
      readonly tool: string;
    };

/**
 * The name of a tool's breaker, the same on every worker: `tool:<label>#<digest>`. A tool of the same name is another one
 * where its tenant, its agent, or the definition of its server is another one.
 */
export function toolBreaker(tenant: string, owner: ToolOwner): string {
  const { tool } = owner;
  const whose = owner.kind === 'server' ? owner.definition : owner.agentId;
  const label = owner.kind === 'server' ? `mcp:${owner.server}/${tool}` : tool;
  return `${prefix}${label}#${sha256(jsonText([tenant, owner.kind, whose, tool])).slice(0, 16)}`;
}

/**
 * The metric label of a breaker; undefined for one that is no tool's. It has only values that an operator has configured:
 * of a server's tool its server.
 */
export function toolBreakerLabel(target: string): string | undefined {
  if (!target.startsWith(prefix)) return undefined;
  const label = target.slice(prefix.length, target.lastIndexOf('#'));
  return label.startsWith('mcp:') ? label.slice(0, label.indexOf('/')) : label;
}
