import { printJson, examples, exitCodes } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { cancelRequest } from '../../shared/contract/control.ts';
import { isTerminalStatus, type RunView } from '../../shared/contract/run.ts';
import { choice, command, flag, text } from './options/command.ts';
import { openClient } from './options/open-client.ts';
import { waitsFor } from './show/pending.ts';

const { options: pendingChoices } = cancelRequest.shape.onPendingApprovals.unwrap();

export const addCancel = command('cancel <run>', {
  description: 'Ask a run to stop.',
  options: [
    flag('--drain', 'let the step that is going on finish first'),
    choice('--pending <what>', 'what becomes of what people were asked (default: deny)', pendingChoices),
    text('--reason <text>', 'why; kept with the run'),
    flag('--json', 'print the run as one JSON document'),
  ],
  help: examples('millrace cancel 01K9Z5N3T8R6V2X4B7C1D0E9FG --drain'),
  work: async (cli, runId, { drain, pending, reason, json }) => {
    await using mill = openClient(cli);
    const found = await mill.findRunId(runId);
    const view = await mill.cancel(found, defined({ drain: drain === true, onPendingApprovals: pending, reason }));
    if (json) return printJson(cli, view);
    cli.stdout.write(`${outcomeLine(view)}\n`);
    return exitCodes.ok;
  },
});

function outcomeLine(view: RunView): string {
  const { runId, status, cancelling } = view;
  if (isTerminalStatus(status)) return `${runId} is ${status}`;
  if (cancelling) return `${runId} is asked to stop`;
  return `${runId} goes on waiting, for ${waitsFor(view)}`;
}
