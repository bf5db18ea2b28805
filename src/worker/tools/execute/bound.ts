import { keepEnds } from '../../../shared/base/bound-text.ts';
import type { Tool } from '../tool.ts';

/** No tool result is larger than this, whatever the tool's own bound, unless the tool has a ceiling of its own. */
export const maxResultBytes = 50 * 1024;

const bytesPerToken = 4;

/** The bound of a tool's result in bytes. 0 tokens leave the ceiling alone. */
export function boundOf(tool: Pick<Tool, 'maxResultTokens' | 'maxResultBytes'>): number {
  const ceiling = tool.maxResultBytes ?? maxResultBytes;
  return tool.maxResultTokens === 0 ? ceiling : Math.min(tool.maxResultTokens * bytesPerToken, ceiling);
}

/** The text within the bound of a tool that has no ceiling of its own: see `keepEnds`. */
export function boundText(text: string, maxTokens: number): string {
  return keepEnds(text, boundOf({ maxResultTokens: maxTokens }));
}
