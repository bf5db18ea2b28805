import { z } from 'zod';
import { defineTool } from '../define.ts';
import { handoffPrefix } from '../names.ts';
import type { Tool } from '../tool.ts';

const maxNameChars = 64;

/** `transfer_to_<id>`, with `_` for what tool names must not have. */
export function handoffToolName(agentId: string): string {
  return `${handoffPrefix}${agentId.replaceAll(/[^A-Za-z0-9_-]/g, '_')}`.slice(0, maxNameChars);
}

/** The tool that hands the conversation over to an agent. */
export function createHandoffTool(agentId: string, description: string | undefined): Tool {
  const tool = defineTool({
    name: handoffToolName(agentId),
    description:
      `Hands the conversation over to the agent ${agentId}, which goes on in your place. ${description ?? ''}`.trim(),
    inputSchema: z.object({ reason: z.string().max(4_000).optional().describe('Why, in a sentence.') }),
    effect: 'idempotent',
    trust: 'built-in',
    sideEffectClass: 'delegation',
    execute: () => 'no agent took over',
  });
  return Object.freeze({ ...tool, handoff: agentId });
}
