import { z } from 'zod';
import type { AgentToolRule } from '../../shared/contract/agent/agent.ts';
import type { HandoffFilterDescriptor } from '../../shared/contract/handoff/handoff.ts';
import type { Message } from '../../shared/contract/message.ts';
import { defineTool } from '../tools/define.ts';
import { ToolError } from '../tools/tool-error.ts';
import type { Tool } from '../tools/tool.ts';
import { boundary, filterFrom, type HandoffFilter } from '../../shared/contract/handoff/handoff-filters.ts';

/** How an agent looks as a tool of another one. */
export interface AgentToolOptions extends Partial<Omit<AgentToolRule, 'agent' | 'inputFilter'>> {
  /** Default: `subagent_<id>`. */
  readonly name?: string;
  /** With `forward-explicit`: the secrets that go along with this call. */
  readonly forwardSecrets?: (input: string) => readonly string[];
  /** What crosses of the conversation, beside the input. Default: nothing. */
  readonly inputFilter?: HandoffFilter | HandoffFilterDescriptor | undefined;
}

const maxNameChars = 64;
const inputSchema = z.strictObject({
  input: z.string().min(1).describe('All that the agent needs to know: it sees nothing else, and does not remember.'),
});

/**
 * A tool that is done by an agent, in a run of its own: its model, tools and limits are those of the agent, its costs count here.
 * `carries` is the agent itself where it is not known by its id. Throws `validation` for a name or a filter of no use.
 */
export function createAgentTool(
  agent: { readonly id: string; readonly description?: string | undefined },
  options: AgentToolOptions = {},
  carries?: unknown,
): Tool {
  const { id } = agent;
  const { name = `subagent_${id.replaceAll(/[^A-Za-z0-9_-]/g, '_')}`.slice(0, maxNameChars), inputFilter } = options;
  const tool = defineTool({
    name,
    description:
      options.description ?? agent.description ?? `Has the agent ${id} do something, and answers what it says.`,
    inputSchema,
    effect: 'idempotent',
    sideEffectClass: 'delegation',
    execute: () => {
      throw new ToolError('capability_blocked', 'no other agent can be asked from here');
    },
  });
  const filter = inputFilter && boundary('apply' in inputFilter ? inputFilter : filterFrom(inputFilter));
  const { exposeTurns: expose = 'final' } = options;
  return Object.freeze({
    ...tool,
    ...(carries !== undefined && { carries }),
    delegate: (args: unknown, { messages }: { readonly messages: readonly Message[] }) => {
      const { input } = args as z.output<typeof inputSchema>;
      const history = filter?.apply(messages);
      return { agentId: id, input, expose, secrets: secretsFor(input, options), history };
    },
  });
}

/** Nothing, by default. */
function secretsFor(input: string, options: AgentToolOptions): readonly string[] {
  const { secretsInheritance = 'inherit-allowlist', inheritSecrets = [], forwardSecrets } = options;
  if (secretsInheritance === 'isolated') return [];
  return secretsInheritance === 'inherit-allowlist' ? inheritSecrets : (forwardSecrets?.(input) ?? []);
}
