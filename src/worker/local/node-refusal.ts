import { RunError } from '../../shared/base/errors.ts';
import { configArgs } from '../tools/configure.ts';
import type { Tool } from '../tools/tool.ts';
import type { LoadedAgent } from '../agents/load-agents.ts';
import type { ToolSecrets } from '../agents/tool-secrets.ts';

/**
 * Throws `validation`, naming each field, for an agent that asks for what a node outside a worker cannot give it: such an
 * agent must not run without its rules, its people or half of its tools. `tools` are those that the node grants, as the
 * agent configures them.
 */
export function refuseUnserved(
  { definition }: LoadedAgent,
  tools: readonly Tool[],
  secrets: ToolSecrets | undefined,
): void {
  const {
    policies,
    trust,
    capabilities,
    subagents,
    agentTools,
    handoffs,
    toolInvocation,
    directories,
    budget,
    limits,
  } = definition;
  const needs = [
    policies.length > 0 && 'policies: there are no rules here',
    trust === 'sandbox' && 'trust: there is no sandbox here',
    capabilities.length > 0 && 'capabilities: there are none here',
    subagents.length > 0 && 'subagents: there are no other agents here',
    Object.keys(agentTools).length > 0 && 'agentTools: there are no other agents here',
    handoffs.length > 0 && 'handoffs: there are no other agents here',
    toolInvocation === 'code-mode' && 'toolInvocation: no scripts are run here',
    directories.length > 0 && 'directories: there are no folders here',
    budget !== undefined && 'budget: no money is counted here',
    limits.deadlineMs !== undefined && 'limits.deadlineMs: no deadline is watched here',
    ...definition.tools.map((name) => name.startsWith('mcp:') && `tools: there is no server for ${name} here`),
    ...tools.flatMap((tool) => needsOf(tool, definition.interaction === 'headless', secrets)),
  ];
  const problems = needs.filter((need) => need !== false);
  if (problems.length === 0) return;
  const text = `agent ${definition.id} cannot be run by this node executor:\n  ${problems.join('\n  ')}`;
  throw new RunError('validation', text, { details: problems });
}

function needsOf(
  { name, asks, delegate, needsApproval, fixedArgs, secretsAllowed }: Tool,
  isHeadless: boolean,
  secrets: ToolSecrets | undefined,
): readonly string[] {
  const set = configArgs(fixedArgs ?? {}, secrets ?? { get: () => undefined });
  const missing = set.kind === 'ready' ? (secrets ? [] : secretsAllowed) : set.missing;
  return [
    ...(delegate ? [`tool ${name}: there are no other agents here`] : []),
    // Without a person a call is denied: that is what a headless agent asks for.
    ...(asks !== undefined && !isHeadless ? [`tool ${name}: there is no person to answer it`] : []),
    ...(needsApproval !== false && !isHeadless ? [`tool ${name}: there is no person to approve its calls`] : []),
    ...missing.map((secret) => `tool ${name}: secrets does not have ${secret}`),
  ];
}
