import { printJson, examples, exitCodes, type Cli, type ExitCode } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { cancelRequest } from '../../shared/contract/control.ts';
import { isTerminalStatus, runStatus, type RunView } from '../../shared/contract/run.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { ManyAnswer } from '../client/many-runs.ts';
import type { Millrace } from '../client/millrace.ts';
import { asJson, choice, command, flag, text, type ValuesOf } from './options/command.ts';
import { filterFrom, filterOptions, isFiltered } from './options/run-filter.ts';
import { LiveLine } from './show/live-line.ts';
import { count, countOf } from '../../shared/base/words.ts';
import { openClient } from './options/open-client.ts';
import { waitsFor } from './show/pending.ts';

const { options: pendingChoices } = cancelRequest.shape.onPendingApprovals.unwrap();

const openStatuses = runStatus.options.filter((status) => !isTerminalStatus(status));

const options = [
  ...filterOptions,
  choice('--status <status>', 'only these', openStatuses),
  flag('--all', 'every open run of the tenant'),
  flag('--drain', 'let the step that is going on finish first'),
  choice('--pending <what>', 'what becomes of what people were asked (default: deny)', pendingChoices),
  text('--reason <text>', 'why; kept with the run'),
  asJson,
] as const;
type Options = ValuesOf<typeof options>;

export const addCancel = command('cancel [run]', {
  description: 'Ask a run to stop, or all open runs that a filter fits.',
  options,
  help: examples(
    'millrace cancel 01K9Z5N3T8R6V2X4B7C1D0E9FG --drain',
    'millrace cancel --batch nightly --reason "wrong file"',
  ),
  work: async (cli, runId, asked) => {
    const byFilter = isFiltered(asked) || asked.status !== undefined || asked.all === true;
    if ((runId === undefined) !== byFilter)
      throw new RunError('validation', 'name the run, or say which runs with --batch and the like, or --all');
    await using mill = openClient(cli);
    if (runId === undefined) return await cancelEach(cli, mill, asked);
    const view = await mill.cancel(await mill.findRunId(runId), requestFrom(asked));
    if (asked.json) return printJson(cli, view);
    cli.stdout.write(`${outcomeLine(view)}\n`);
    return exitCodes.ok;
  },
});

function requestFrom({ drain, pending, reason }: Options) {
  return defined({ drain: drain === true, onPendingApprovals: pending, reason });
}

async function cancelEach(cli: Cli, mill: Millrace, asked: Options): Promise<ExitCode> {
  const { status, all } = asked;
  const request = { ...(await filterFrom(mill, asked)), ...requestFrom(asked), ...defined({ status, all }) };
  using live = new LiveLine(cli.stderr);
  let [matched, done] = [0, 0];
  const failures: ManyAnswer['failures'] = [];
  let cursor: string | undefined;
  do {
    cli.interrupted.throwIfAborted();
    const answer = await mill.cancelMany({ ...request, ...defined({ cursor }) });
    matched += answer.matched;
    done += answer.done;
    failures.push(...answer.failures);
    live.set(`${count(done)} asked to stop`);
    cursor = answer.cursor;
  } while (cursor !== undefined);
  live[Symbol.dispose]();
  if (asked.json) printJson(cli, { matched, done, failures });
  else
    cli.stdout.write(
      `${count(done)} of ${countOf(matched, 'run')} ${matched === 1 ? 'is' : 'are'} cancelled or asked to stop\n`,
    );
  for (const { runId, code } of failures) cli.stderr.write(`${runId}: ${code}\n`);
  return failures.length === 0 ? exitCodes.ok : exitCodes.failed;
}

function outcomeLine(view: RunView): string {
  const { runId, status, cancelling } = view;
  if (isTerminalStatus(status)) return `${runId} is ${status}`;
  if (cancelling) return `${runId} is asked to stop`;
  return `${runId} goes on waiting, for ${waitsFor(view)}`;
}
