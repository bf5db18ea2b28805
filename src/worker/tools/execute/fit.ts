import { unlessAborted } from '../../../shared/base/deadline.ts';
import { defined } from '../../../shared/base/collections.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import { isWithin, keepEnds, keepTail, cleanText } from '../../../shared/base/text.ts';
import type { Spill } from './batch.ts';
import type { Tool } from '../tool.ts';

/** What `fitResult` needs to know of a tool. */
export type FittedTool = Pick<
  Tool,
  | 'name'
  | 'maxResultTokens'
  | 'maxResultBytes'
  | 'truncationStrategy'
  | 'summarize'
  | 'sensitivity'
  | 'trust'
  | 'inboundSanitization'
>;

export interface FittedResult {
  readonly content: string;
  /** Names where all of it can be read with `read_result`. */
  readonly handle?: string;
}

/** Longest wait for a store, or for a tool's `summarize`, in milliseconds. */
const maxWaitMs = 30_000;
/**
 * What is being kept when its run is stopped goes on for so long, in milliseconds: the result may still be journalled, and one
 * that was cut instead can never be read whole.
 */
const keepGraceMs = 2_000;
/** A lower bound, in bytes, would leave no room for the handle: it counts as this one. */
const minSpillBound = 256;

/**
 * A result's text within the tool's bound, by the tool's strategy. With `spill-to-file` all of it is
 * kept and `content` is a preview with the handle, unless the tool is `secret`, there is no `spill` or it fails: then the
 * middle is cut. So it is when `summarize` fails or is too long. Never rejects.
 */
export async function fitResult(text: string, tool: FittedTool, spill: Spill | undefined, signal: AbortSignal) {
  const whole = cleanText(text);
  const maxBytes = boundOf(tool);
  if (isWithin(whole, maxBytes)) return { content: whole };
  switch (tool.truncationStrategy) {
    case 'tail':
      return { content: keepTail(whole, maxBytes) };
    case 'summarize':
      return { content: (await summaryOf(whole, tool, maxBytes, signal)) ?? keepEnds(whole, maxBytes) };
    case 'spill-to-file':
      return (await spilled(whole, tool, maxBytes, spill, signal)) ?? { content: keepEnds(whole, maxBytes) };
    case 'middle':
      return { content: keepEnds(whole, maxBytes) };
    default:
      return assertNever(tool.truncationStrategy);
  }
}

async function summaryOf(whole: string, tool: FittedTool, maxBytes: number, signal: AbortSignal) {
  const summary = await settledWithin(signal, async (stop) => await tool.summarize?.(whole, stop));
  if (typeof summary !== 'string') return undefined;
  const shorter = cleanText(summary);
  return shorter.trim() !== '' && isWithin(shorter, maxBytes) ? shorter : undefined;
}

async function spilled(
  whole: string,
  tool: FittedTool,
  maxBytes: number,
  spill: Spill | undefined,
  signal: AbortSignal,
): Promise<FittedResult | undefined> {
  if (!spill || tool.sensitivity === 'secret') return undefined;
  const { name: toolName, trust, sensitivity, inboundSanitization } = tool;
  const origin = defined({ toolName, trust, sensitivity, inboundSanitization });
  const handle = await settledWithin(later(signal, keepGraceMs), async () => await spill.put(whole, origin));
  if (handle === undefined) return undefined;
  const hint = `\n[All ${Buffer.byteLength(whole)} bytes are kept. Read on with read_result, handle "${handle}".]`;
  const room = Math.max(maxBytes, minSpillBound) - Buffer.byteLength(hint);
  return { content: keepEnds(whole, room) + hint, handle };
}

/** What the work answers, or undefined when it throws, takes too long, or the run is stopped. */
async function settledWithin<T>(signal: AbortSignal, work: (stop: AbortSignal) => Promise<T>): Promise<T | undefined> {
  const stop = AbortSignal.any([signal, AbortSignal.timeout(maxWaitMs)]);
  if (stop.aborted) return undefined;
  try {
    return await unlessAborted(work(stop), stop);
  } catch {
    return undefined;
  }
}

/** Aborts so long after the other signal. */
function later(signal: AbortSignal, ms: number): AbortSignal {
  const late = new AbortController();
  const abort = () => void setTimeout(() => late.abort(signal.reason), ms);
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  return late.signal;
}

/** No tool result is larger than this, whatever the tool's own bound, unless the tool has a ceiling of its own. */
export const maxResultBytes = 50 * 1024;

const bytesPerToken = 4;

/** The bound of a tool's result in bytes. 0 tokens leave the ceiling alone. */
export function boundOf(tool: Pick<Tool, 'maxResultTokens' | 'maxResultBytes'>): number {
  const ceiling = tool.maxResultBytes ?? maxResultBytes;
  return tool.maxResultTokens === 0 ? ceiling : Math.min(tool.maxResultTokens * bytesPerToken, ceiling);
}
