import { z } from 'zod';
import { definePackageTool } from '../define.ts';
import { ToolError } from '../tool-error.ts';
import type { Tool } from '../tool.ts';
import { handoffPrefix } from '../names.ts';

export interface AskableAgent {
  readonly id: string;
  readonly description?: string | undefined;
}

/** So many agents are named in the schema itself, which spares the model a call; of more it has to ask for the list. */
const maxNamed = 32;

const inputFor = (offered: readonly AskableAgent[]) =>
  z.strictObject({
    agent: z
      .string()
      .min(1)
      .max(128)
      .describe('The id of the agent; list_agents says what each is for.')
      // Shown and not enforced: the answer to a wrong name is the one that lists the right ones.
      .meta(offered.length > 0 && offered.length <= maxNamed ? { enum: offered.map(({ id }) => id) } : {}),
    message: z
      .string()
      .min(1)
      .describe('All that the agent needs to know: it sees nothing else of this conversation, and does not remember.'),
  });

/**
 * The tools that ask other agents. Each question is a run of its own, with its own model, tools and limits; its answer is the
 * result of the call. `offered` bounds whom the model may reach.
 */
export function createAskAgentTools(offered: readonly AskableAgent[]): readonly Tool[] {
  const inputSchema = inputFor(offered);
  const listAgents = definePackageTool({
    name: 'list_agents',
    description: 'Lists the agents that ask_agent can ask, with what each is for.',
    inputSchema: z.strictObject({}),
    effect: 'read',
    execute: () => offered.map(({ id, description }) => ({ id, description: description ?? '' })),
  });
  const askAgent = definePackageTool({
    name: 'ask_agent',
    description:
      'Asks another agent and answers what it says. Several questions of one step are worked on side by side.',
    inputSchema,
    effect: 'idempotent',
    trust: 'user-defined',
    sideEffectClass: 'delegation',
    execute: () => {
      throw new ToolError('capability_blocked', 'no other agent can be asked from here');
    },
  });
  return [
    listAgents,
    Object.freeze({
      ...askAgent,
      delegate: (args: unknown) => {
        const { agent: agentId, message } = args as z.output<ReturnType<typeof inputFor>>;
        const known = offered.map(({ id }) => id);
        const names = known.join(', ') || 'none';
        if (!known.includes(agentId))
          throw new ToolError('invalid_input', `there is no agent ${agentId} to ask; there are ${names}`);
        return { agentId, input: message, expose: 'all' as const };
      },
    }),
  ];
}

const maxNameChars = 64;

/** `transfer_to_<id>`, with `_` for what tool names must not have. */
export function handoffToolName(agentId: string): string {
  return `${handoffPrefix}${agentId.replaceAll(/[^A-Za-z0-9_-]/g, '_')}`.slice(0, maxNameChars);
}

export function createHandoffTool(agentId: string, description: string | undefined): Tool {
  const tool = definePackageTool({
    name: handoffToolName(agentId),
    description:
      `Hands the conversation over to the agent ${agentId}, which goes on in your place. ${description ?? ''}`.trim(),
    inputSchema: z.object({ reason: z.string().max(4_000).optional().describe('Why, in a sentence.') }),
    effect: 'idempotent',
    sideEffectClass: 'delegation',
    execute: () => 'no agent took over',
  });
  return Object.freeze({ ...tool, handoff: agentId });
}
