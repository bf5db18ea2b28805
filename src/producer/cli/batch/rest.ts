import { createInterface } from 'node:readline/promises';
import type { BatchView } from '../../../shared/contract/batch.ts';
import type { Batches } from '../../client/batches/batches.ts';
import { exitCodes, type Cli, type ExitCode } from '../cli.ts';
import { callOf } from '../show/call-of.ts';
import { expectedUsd, quoteText } from './show-batch.ts';
import { countOf } from '../../../shared/base/words.ts';

/** What a person has said beforehand about a batch that waits. */
export interface Wishes {
  /** Go on from a quote without asking. */
  readonly yes: boolean;
  /** Dollars that the whole batch may be expected to cost. */
  readonly maxCost: number | undefined;
  /** Nothing but data is printed on stdout. */
  readonly json: boolean;
  /** The same command as before, which goes on with what too many failures have stopped. */
  readonly isRepeated: boolean;
}

/** The batch goes on; or the command ends with this code, and the batch stays as it is. */
export type Decided =
  | { readonly kind: 'resumed'; readonly batch: BatchView }
  | { readonly kind: 'stays'; readonly code: ExitCode };

/** Decides about a batch that is paused, or waits with its quote. */
export async function decideRest(
  cli: Cli,
  batches: Pick<Batches, 'resume'>,
  batch: BatchView,
  wishes: Wishes,
): Promise<Decided> {
  const { status, quote, reason } = batch;
  const say = (text: string) => void cli.stderr.write(`${text}\n`);
  const resume = async (): Promise<Decided> => ({ kind: 'resumed', batch: await batches.resume(batch.id) });
  const how = `\`${callOf(cli)} batches resume ${batch.id}\` goes on, \`${callOf(cli)} batches cancel ${batch.id}\` ends it with what there is.`;
  if (status === 'paused') {
    if (reason === 'max_failures' && wishes.isRepeated) return await resume();
    const why =
      reason === 'max_failures' ? `after ${countOf(batch.request_counts.failed, 'failed line')}` : 'by a person';
    say(`The batch was paused ${why}. ${how}`);
    return { kind: 'stays', code: exitCodes.failed };
  }
  if (!quote) return await resume();
  if (wishes.json) say(quoteText(quote));
  else cli.stdout.write(`${quoteText(quote)}\n`);
  if (wishes.maxCost !== undefined ? expectedUsd(quote) > wishes.maxCost : reason === 'over_max_cost') {
    say(`That is more than --max-cost, so no further line was begun. ${how}`);
    return { kind: 'stays', code: exitCodes.failed };
  }
  if (wishes.yes || (await isWanted(cli))) return await resume();
  say(`No further line was begun. ${how}`);
  return { kind: 'stays', code: exitCodes.ok };
}

/** Asks at a terminal; elsewhere no answer is a no. */
async function isWanted({ stdin, stderr, interrupted }: Cli): Promise<boolean> {
  if (!stdin.isTTY || !stderr.isTTY) return false;
  const reader = createInterface({ input: stdin, output: stderr });
  try {
    const answer = await reader.question('Run the rest? [y/N] ', { signal: interrupted });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    reader.close();
  }
}
