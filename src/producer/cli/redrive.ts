import { printJson, examples, exitCodes } from './cli.ts';
import { RunError, type ErrorCode } from '../../shared/base/errors.ts';
import { count, flat } from '../../shared/base/words.ts';
import type { Millrace } from '../client/millrace.ts';
import type { RedriveRequest } from '../client/redrive.ts';
import { asJson, command, flag } from './options/command.ts';
import { filterFrom, filterOptions, isFiltered } from './options/run-filter.ts';
import { openClient } from './options/open-client.ts';
import { deadlineFrom, deadlineOption } from './options/arguments.ts';

/** Runs in one call of the client. */
const pageSize = 1_000;

/** What a run asked for by name was refused with. */
interface Refusal {
  readonly runId: string;
  readonly code: ErrorCode;
  readonly message: string;
}

export const addRedrive = command('redrive [runs...]', {
  description: 'Queue failed runs again; they continue from their journal.',
  options: [
    flag('--all-failed', 'every failed run'),
    ...filterOptions,
    deadlineOption('from now until the runs have to have ended; for those past theirs'),
    asJson,
  ],
  help: examples(
    'millrace redrive 01K9Z5N3T8R6V2X4B7C1D0E9FG',
    'millrace redrive --all-failed',
    'millrace redrive --batch nightly --error provider_unavailable',
  ),
  work: async (cli, runIds, options) => {
    const byFilter = options.allFailed === true || isFiltered(options);
    if ((runIds.length === 0) !== byFilter)
      throw new RunError(
        'validation',
        'name the runs, or say which failed ones with --batch and the like, or --all-failed',
      );
    await using mill = openClient(cli);
    const { redriven, refused, skipped } = byFilter
      ? await redriveAll(mill, { ...(await filterFrom(mill, options)), ...deadlineFrom(options) }, cli.interrupted)
      : await redriveEach(mill, deadlineFrom(options), runIds);
    if (options.json) printJson(cli, { redriven, refused, skipped });
    else for (const runId of redriven) cli.stdout.write(`${runId} is queued again\n`);
    for (const { runId, code, message } of refused) cli.stderr.write(`${runId}: ${code}: ${flat(message)}\n`);
    if (skipped > 0)
      cli.stderr.write(
        skipped === 1
          ? '1 run skipped: only the archive has it\n'
          : `${count(skipped)} runs skipped: only the archive has them\n`,
      );
    if (redriven.length + refused.length + skipped === 0) cli.stderr.write('There are no such failed runs.\n');
    return refused.length === 0 ? exitCodes.ok : exitCodes.failed;
  },
});

interface Redriven {
  readonly redriven: readonly string[];
  readonly refused: readonly Refusal[];
  /** Runs of which only the archive is left. */
  readonly skipped: number;
}

type Deadline = Pick<RedriveRequest, 'deadlineMs'>;

async function redriveAll(mill: Millrace, asked: RedriveRequest, signal: AbortSignal): Promise<Redriven> {
  const redriven = new Set<string>();
  const late = new Set<string>();
  let skipped = 0;
  for (;;) {
    signal.throwIfAborted();
    const before = redriven.size;
    const answer = await mill.redrive({ limit: pageSize, ...asked });
    for (const runId of answer.redriven) redriven.add(runId);
    for (const runId of answer.late) late.add(runId);
    // Each call begins with the newest run, and meets the same ones again.
    skipped = Math.max(skipped, answer.skipped);
    // Runs that fail again at once come back in the next page: without news this would go on for ever.
    if (!answer.more || redriven.size === before)
      return { redriven: [...redriven], refused: [...late].map(pastDeadline), skipped };
  }
}

function pastDeadline(runId: string): Refusal {
  return { runId, code: 'deadline_exceeded', message: 'its deadline has passed: give a new one with --deadline' };
}

async function redriveEach(mill: Millrace, deadline: Deadline, runIds: readonly string[]): Promise<Redriven> {
  const redriven: string[] = [];
  const refused: Refusal[] = [];
  for (const beginning of runIds) {
    let runId = beginning;
    try {
      runId = await mill.findRunId(beginning);
      redriven.push(...(await mill.redrive({ runId, ...deadline })).redriven);
    } catch (error) {
      if (!(error instanceof RunError) || error.code === 'queue_unavailable') throw error;
      refused.push({ runId, code: error.code, message: error.message });
    }
  }
  return { redriven, refused, skipped: 0 };
}
