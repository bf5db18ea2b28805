import { defined } from '../../shared/base/collections.ts';
import { sha256 } from '../../shared/base/ids.ts';
import { canonicalJson } from '../../shared/base/json.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { McpServer } from '../../shared/contract/agent/mcp.ts';
import type { Tool } from '../tools/tool.ts';
import type { LoadedAgent } from './loaded-agent.ts';

/** What is kept of an agent's definition beside the runs that it had, and the digest of that. */
export interface DefinitionRecord {
  readonly digest: string;
  readonly json: string;
}

const digestChars = 32;
const withheld = '[redacted]';
const known = new WeakMap<LoadedAgent, DefinitionRecord>();

/**
 * Everything of a definition that is data: what its author wrote, its tools with their schemas, the names of its skills. No code, and
 * no credentials. The same definition has the same digest in every process.
 */
export function definitionRecord(agent: LoadedAgent, redactor: Redactor): DefinitionRecord {
  const before = known.get(agent);
  if (before) return before;
  const { definition, tools, skills = [] } = agent;
  const data = {
    ...definition,
    mcpServers: Object.fromEntries(Object.entries(definition.mcpServers).map(([name, server]) => [name, open(server)])),
    tools: definition.tools,
    toolDefinitions: tools.map(toolRecord),
    skills: skills.map(({ name }) => name),
  };
  const json = canonicalJson(redactor.value(data));
  const record = { digest: sha256(json).slice(0, digestChars), json };
  known.set(agent, record);
  return record;
}

function toolRecord(tool: Tool) {
  const { name, description, parameters, effect, trust, sensitivity, timeoutMs, maxResultTokens, deferLoading } = tool;
  const { needsApproval: gate } = tool;
  const needsApproval = typeof gate === 'function' ? 'by_arguments' : gate;
  return defined({
    name,
    description,
    parameters,
    effect,
    trust,
    sensitivity,
    timeoutMs,
    maxResultTokens,
    deferLoading,
    needsApproval,
  });
}

/** What is set for a server may be a credential under any name; the names of secrets are none. */
function open(server: McpServer): McpServer {
  const masked = (values: Record<string, string | { secret: string }>) =>
    Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, typeof value === 'string' ? withheld : value]),
    );
  return 'url' in server ? { ...server, headers: masked(server.headers) } : { ...server, env: masked(server.env) };
}
