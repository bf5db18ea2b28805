import { isTerminalStatus } from '../../shared/run.ts';
import { openClient } from './client.ts';
import { examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';

interface Options {
  readonly drain?: true;
  readonly reason?: string;
  readonly json?: true;
}

export const addCancel: AddCommand = (program, act) => {
  program
    .command('cancel <run>')
    .description('Ask a run to stop.')
    .option('--drain', 'let the step that is going on finish first')
    .option('--reason <text>', 'why; kept with the run')
    .option('--json', 'print the run as one JSON document')
    .addHelpText('after', examples('millrace cancel 01K9Z5N3T8R6V2X4B7C1D0E9FG --drain'))
    .action(act(cancel));
};

async function cancel(cli: Cli, runId: string, { drain, reason, json }: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const view = await mill.cancel(runId, { drain: drain === true, ...(reason !== undefined && { reason }) });
  const said = isTerminalStatus(view.status) ? `${runId} is ${view.status}` : `${runId} is asked to stop`;
  cli.stdout.write(json ? `${JSON.stringify(view, null, 2)}\n` : `${said}\n`);
  return exitCodes.ok;
}
