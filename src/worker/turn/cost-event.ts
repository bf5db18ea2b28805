import type { EventOf } from '../../shared/contract/event.ts';
import type { Usage } from '../../shared/contract/money.ts';

type CostUpdated = EventOf<'cost.updated'>;

/** The tokens of a call as `cost.updated` names them. */
export type CostTokens = Pick<CostUpdated, 'inputTokens' | 'outputTokens' | 'cachedTokens' | 'cacheWriteTokens'>;

/** Kinds of tokens that there were none of are left out, but for input and output. */
export function costTokens({ input, output, cached, cacheWrite }: Usage): CostTokens {
  return {
    inputTokens: input,
    outputTokens: output,
    ...(cached > 0 && { cachedTokens: cached }),
    ...(cacheWrite > 0 && { cacheWriteTokens: cacheWrite }),
  };
}

/** The same backwards. */
export function usageOfCost({
  inputTokens: input,
  outputTokens: output,
  cachedTokens: cached = 0,
  cacheWriteTokens: cacheWrite = 0,
}: CostTokens): Usage {
  return { input, output, cached, cacheWrite, total: input + output + cached + cacheWrite };
}
