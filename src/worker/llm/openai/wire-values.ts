import { jsonOr, jsonText } from '../../../shared/base/json.ts';
import type { Usage } from '../../../shared/contract/money.ts';
import type { AdvertisedTool, LlmRequest } from '../provider.ts';

const pieceChars = 64;
const maxMetadataFields = 16;
const maxMetadataChars = 512;

/** Fields as servers send them: any of them may be missing, or of any type. */
export type Unread<Names extends string> = { readonly [Name in Names]?: unknown };

/**
 * Normalised: `input` is without what was read from or written to the cache, which `prompt` includes. Nonsense counts as not
 * reported.
 */
export function usageFrom(counts: Unread<'prompt' | 'output' | 'cached' | 'cacheWrite'>): Usage | undefined {
  const { prompt, output, cached, cacheWrite } = counts;
  const written = output ?? 0;
  if (!isCount(prompt) || !isCount(written)) return undefined;
  const read = Math.min(prompt, countOr0(cached));
  const stored = Math.min(prompt - read, countOr0(cacheWrite));
  return { input: prompt - read - stored, output: written, cached: read, cacheWrite: stored, total: prompt + written };
}

/** A text that is not empty, or undefined for all that servers send instead. */
export function wireText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** A text that came in one piece, as the pieces in which it might have streamed. */
export function* pieces(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    let end = Math.min(start + pieceChars, text.length);
    // Never between the two halves of a surrogate pair.
    if (end < text.length && /[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end++;
    yield text.slice(start, end);
    start = end;
  }
}

/** The run's metadata as OpenAI takes it: few fields, all short texts. */
export function wireMetadata({ metadata }: LlmRequest): Record<string, string> | undefined {
  const entries = Object.entries(metadata ?? {}).filter(([, value]) => value !== undefined && value !== null);
  if (entries.length === 0) return undefined;
  const fields = entries.slice(0, maxMetadataFields).map(([name, value]) => {
    const text = typeof value === 'string' ? value : jsonText(value);
    return [name.slice(0, 64), text.slice(0, maxMetadataChars)];
  });
  return Object.fromEntries(fields);
}

export function wireTool({ name, description, parameters }: AdvertisedTool) {
  return { name, description, parameters };
}

/** Several servers parse the arguments of past calls and fail the whole request when they are not JSON. */
export function wireArgs(args: string): string {
  return jsonOr(args) === undefined ? '{}' : args;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function countOr0(value: unknown): number {
  return isCount(value) ? value : 0;
}
