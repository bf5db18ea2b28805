import { z } from 'zod';

/** What of a tool its server may change. The names are those of the protocol. */
export const toolPart = z.enum(['title', 'description', 'inputSchema', 'outputSchema', 'annotations']);
export type ToolPart = z.infer<typeof toolPart>;

/** How much of it people are shown, in characters. */
export const maxPinnedDescriptionChars = 2_000;
export const maxPinnedSchemaChars = 4_000;

const digest = z.string().regex(/^[0-9a-f]{64}$/);

/** A tool as its server describes it, by its digest, and as much of it as people compare. */
export const describedTool = z.object({
  /** SHA-256 of all parts. */
  digest,
  /** SHA-256 of each part that it has, cut. */
  parts: z.partialRecord(toolPart, z.string()),
  /** Redacted, without hidden characters, cut. */
  description: z.string(),
  /** Of the arguments, as JSON; redacted, without hidden characters, cut. */
  inputSchema: z.string(),
  /** When a worker saw it so for the first time. */
  seenAt: z.string(),
});
export type DescribedTool = Readonly<z.infer<typeof describedTool>>;

/** A server by how it is reached, whatever an agent calls it. */
export const pinnedServer = z.object({
  id: z.string().describe('Digest of how it is reached: command, arguments and folder, or URL.'),
  server: z.string().describe('Its name in the agent that used it last.'),
  target: z.string().describe('How it is reached, without query and credentials.'),
});
export type PinnedServer = Readonly<z.infer<typeof pinnedServer>>;

export const pinnedTool = z.object({
  tool: z.string().describe('As the server calls it.'),
  accepted: describedTool
    .extend({
      by: z.string().optional().describe('Who accepted it. Absent: it is as it was at the first use.'),
      acceptedAt: z.string().optional(),
    })
    .optional()
    .describe('What agents may use. Absent: the tool was not there at the first use of the server.'),
  changed: describedTool.optional().describe('What the server says instead, which is not accepted.'),
});
export type PinnedTool = z.infer<typeof pinnedTool>;

export const serverPins = pinnedServer.extend({ usedAt: z.string(), tools: z.array(pinnedTool) });
export type ServerPins = z.infer<typeof serverPins>;

/** The parts in which two descriptions differ. */
export function changedParts(before: DescribedTool | undefined, after: DescribedTool): ToolPart[] {
  return toolPart.options.filter((part) => before?.parts[part] !== after.parts[part]);
}

/** What a server has changed about a tool, as the person sees it who decides about a call of the tool. */
export const toolChange = z.object({
  server: z.string(),
  tool: z.string().describe('As the server calls it.'),
  parts: z.array(toolPart),
  /** What was accepted. Absent: the tool was not there then. */
  before: describedTool.pick({ description: true, inputSchema: true }).optional(),
  after: describedTool.pick({ description: true, inputSchema: true }),
  /** Of what the server says now: granting the call accepts this, and nothing that comes later. */
  digest,
});
export type ToolChange = Readonly<z.infer<typeof toolChange>>;
