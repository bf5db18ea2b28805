import { z } from 'zod';
import { defineTool } from '../define.ts';
import { rankTools } from '../rank.ts';
import type { HostContext, Tool } from '../tool.ts';

const inputSchema = z.strictObject({
  query: z.string().min(1).max(1_024).describe('Words about what the tool should do, or its name.'),
  k: z.int().min(1).max(15).default(5).describe('How many tools to answer at most.'),
});

/**
 * The tool by which a model finds tools that it does not see yet. What it finds may be called from the next step
 * on.
 */
export function createToolSearch(): Tool {
  return defineTool({
    name: 'tool_search',
    description:
      'Finds more tools by what they do. Answers their names, descriptions and arguments, best first. You may call them from the next step on.',
    inputSchema,
    effect: 'read',
    trust: 'built-in',
    execute({ query, k }, context) {
      const { catalogue, promote } = context as HostContext;
      const deferred = catalogue().filter((entry) => entry.deferred);
      const found = rankTools(deferred, query).slice(0, k);
      promote(found.map(({ entry }) => entry.name));
      return found.map(({ entry: { name, description, parameters: schema }, score }) => ({
        name,
        description,
        inputSchema: schema,
        score,
      }));
    },
  });
}
