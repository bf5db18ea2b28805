import { defined } from '../../../shared/base/collections.ts';
import { errorCode, type ErrorCode } from '../../../shared/base/errors.ts';
import { InvalidArgumentError } from 'commander';
import { didYouMean } from '../../../shared/base/nearest.ts';
import { usdToMicrocents } from '../../../shared/contract/plain/amounts.ts';
import type { Millrace } from '../../client/millrace.ts';
import type { RunFilter } from '../../client/run-filter.ts';
import { keyValue, positiveNumber } from './arguments.ts';
import { text, value, type ValuesOf } from './command.ts';
import { since, until } from './when.ts';

/** Which runs of the tenant a command means, beside their status. */
export const filterOptions = [
  text('--agent <id>', 'only runs of this agent'),
  text('--thread <id>', 'only runs of this thread'),
  text('--batch <name>', 'only runs of this batch'),
  text('--parent <run>', 'only runs that work for this run'),
  value('--error <code>', 'only runs that failed with this code', knownCode),
  value('--min-cost <usd>', 'only runs that have cost at least so much', positiveNumber),
  value('--metadata <key=value>', 'only runs with this metadata; may be repeated', keyValue),
  value('--since <time>', 'only runs created then or later', since),
  value('--until <time>', 'only runs created before; a day is included', until),
] as const;
export type FilterValues = ValuesOf<typeof filterOptions>;

function knownCode(given: string): ErrorCode {
  const { data } = errorCode.safeParse(given);
  if (data !== undefined) return data;
  throw new InvalidArgumentError(`Not a code of an error${didYouMean(given, errorCode.options)}`);
}

/** The filter that the options make. Throws as `findRunId` does for `--parent`. */
export async function filterFrom(
  mill: Pick<Millrace, 'findRunId'>,
  asked: FilterValues,
): Promise<Omit<RunFilter, 'status'>> {
  const { agent, thread, batch, metadata, error, since: after, until: before } = asked;
  const parent = asked.parent === undefined ? undefined : await mill.findRunId(asked.parent);
  const minCostMicrocents = asked.minCost === undefined ? undefined : usdToMicrocents(asked.minCost);
  return defined({ agent, thread, batch, metadata, errorCode: error, parent, minCostMicrocents, after, before });
}

/** Does any of the options narrow what is meant? */
export function isFiltered(asked: FilterValues): boolean {
  const { agent, thread, batch, parent, error, minCost, metadata, since: after, until: before } = asked;
  return [agent, thread, batch, parent, error, minCost, metadata, after, before].some((one) => one !== undefined);
}
