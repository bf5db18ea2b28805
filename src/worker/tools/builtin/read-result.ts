import { defined } from '../../../shared/base/collections.ts';
import { z } from 'zod';
import { jsonText } from '../../../shared/base/json.ts';
import { maxScannedChars, treatmentOf } from '../../guards/sanitise.ts';
import { definePackageTool } from '../define.ts';
import type { ReadPart, ReadRange, ReadRequest, ResultReader } from '../source.ts';
import { ToolError } from '../tool-error.ts';
import { ToolOutput, type ResultOrigin, type Tool } from '../tool.ts';

const maxPageBytes = 1024 * 1024;
const defaultPageBytes = 64 * 1024;
const maxHandleChars = 2_048;
/** In JSON one byte becomes six at most, and the other fields need some. */
const maxAnswerBytes = 6 * maxPageBytes + 1_024;

const line = z.int().min(1);

const inputSchema = z.strictObject({
  handle: z.string().describe('As the result named it.'),
  offset: z.int().min(0).default(0).describe('First byte.'),
  length: z.int().min(1).optional().describe('Bytes from there. Default: maxBytes.'),
  startLine: line.optional().describe('First line, from 1. With startLine or endLine the bytes are not looked at.'),
  endLine: line.optional().describe('Last line, included. Default: to the end.'),
  maxBytes: z
    .int()
    .min(1)
    .max(maxPageBytes)
    .default(defaultPageBytes)
    .describe('The most bytes of text in one answer, up to 1 MiB.'),
});
type Args = z.output<typeof inputSchema>;

const description = `Reads a part of a result that was too large to be shown, by its handle, for instance
{"handle":"spill:…","offset":0,"length":20000} or {"handle":"spill:…","startLine":1,"endLine":200}. Answers content, offset
(the byte at which it begins), bytes, totalBytes and eof. One answer holds at most maxBytes of text, 64 KiB unless you ask
for more; of sources that are not trusted it may be fewer. Go on at offset + bytes until eof is true.`.replaceAll(
  '\n',
  ' ',
);

/**
 * The tool that reads large results back. The readers are asked in order; the first that knows the handle answers. What it
 * answers is a result of the tool that made the text, with that tool's trust and sensitivity.
 */
export function createReadResultTool(readers: readonly ResultReader[]): Tool {
  const tool = definePackageTool({
    name: 'read_result',
    description,
    inputSchema,
    effect: 'read',
    // What was asked for is never cut: a page with a hole in it would be no page.
    maxResultTokens: 0,
    async execute(args, { runId, tenant, signal }) {
      const range = rangeOf(args);
      const { handle, maxBytes } = args;
      const request = { runId, tenant, handle, range, maxBytes, signal };
      let part = await firstAnswer(readers, request);
      for (let less = maxBytes / 2; !isScannedWhole(part) && less >= 1; less /= 2)
        part = await firstAnswer(readers, { ...request, maxBytes: Math.floor(less) });
      return new ToolOutput(pageOf(part), { origin: originOf(part) });
    },
  });
  return Object.freeze({ ...tool, maxResultBytes: maxAnswerBytes });
}

function rangeOf({ offset, length, startLine, endLine, maxBytes }: Args): ReadRange {
  if (startLine === undefined && endLine === undefined) return { kind: 'bytes', offset, length: length ?? maxBytes };
  const [first, last] = [startLine ?? 1, endLine ?? Number.MAX_SAFE_INTEGER];
  if (last < first) throw new ToolError('invalid_input', 'endLine is before startLine');
  return { kind: 'lines', startLine: first, endLine: last };
}

function pageOf({ content, offset, bytes, totalBytes, eof }: ReadPart) {
  return { content, offset, bytes, totalBytes, eof };
}

function originOf({ toolName, trust, sensitivity = 'public', inboundSanitization }: ReadPart): ResultOrigin {
  return defined({ toolName, trust, sensitivity, inboundSanitization });
}

/** What is not trusted is only shown as far as it is looked through: a larger page would lose its end. */
function isScannedWhole(part: ReadPart): boolean {
  const treatment = part.inboundSanitization ?? treatmentOf[part.trust];
  const isShownAnyway = treatment === 'pass' || treatment === 'flag';
  return isShownAnyway || jsonText(pageOf(part)).length <= maxScannedChars;
}

async function firstAnswer(readers: readonly ResultReader[], request: ReadRequest): Promise<ReadPart> {
  const { handle } = request;
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  if (handle === '' || handle.length > maxHandleChars || /[\u0000-\u001f\u007f]/.test(handle))
    throw new ToolError('spill_handle_invalid', 'this is no handle');
  for (const read of readers) {
    const part = await read(request);
    if (part) return part;
  }
  throw new ToolError('spill_handle_invalid', 'this handle is not known here');
}
