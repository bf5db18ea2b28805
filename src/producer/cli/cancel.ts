import { printJson, examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { Option } from 'commander';
import { cancelRequest, type CancelRequest } from '../../shared/contract/control.ts';
import { isTerminalStatus, type RunView } from '../../shared/contract/run.ts';
import { openClient } from './options/open-client.ts';
import { waitsFor } from './show/pending.ts';

interface Options {
  readonly drain?: true;
  readonly pending?: CancelRequest['onPendingApprovals'];
  readonly reason?: string;
  readonly json?: true;
}

export const addCancel: AddCommand = (program, act) => {
  program
    .command('cancel <run>')
    .description('Ask a run to stop.')
    .option('--drain', 'let the step that is going on finish first')
    .addOption(
      new Option('--pending <what>', 'what becomes of what people were asked (default: deny)').choices(
        cancelRequest.shape.onPendingApprovals.unwrap().options,
      ),
    )
    .option('--reason <text>', 'why; kept with the run')
    .option('--json', 'print the run as one JSON document')
    .addHelpText('after', examples('millrace cancel 01K9Z5N3T8R6V2X4B7C1D0E9FG --drain'))
    .action(act(cancel));
};

async function cancel(cli: Cli, runId: string, { drain, pending, reason, json }: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const view = await mill.cancel(runId, defined({ drain: drain === true, onPendingApprovals: pending, reason }));
  if (json) return printJson(cli, view);
  cli.stdout.write(`${outcomeLine(view)}\n`);
  return exitCodes.ok;
}

function outcomeLine(view: RunView): string {
  const { runId, status, cancelling } = view;
  if (isTerminalStatus(status)) return `${runId} is ${status}`;
  if (cancelling) return `${runId} is asked to stop`;
  return `${runId} goes on waiting, for ${waitsFor(view)}`;
}
