import { formatUsd } from '../../shared/money.ts';
import type { RunView } from '../../shared/run.ts';
import { openClient } from './client.ts';
import { examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { count, duration, oneLine, printable, table } from './show/paint.ts';

export const addGet: AddCommand = (program, act) => {
  program
    .command('get <run>')
    .description('Show the state of a run, its result, its usage and its cost.')
    .option('--json', 'print one JSON document')
    .addHelpText(
      'after',
      examples(
        'millrace get 01K9Z5N3T8R6V2X4B7C1D0E9FG',
        'millrace get 01K9Z5N3T8R6V2X4B7C1D0E9FG --json | jq -r .result.text',
      ),
    )
    .action(act(get));
};

async function get(cli: Cli, runId: string, options: { json?: true }): Promise<ExitCode> {
  await using mill = openClient(cli);
  const view = await mill.get(runId);
  cli.stdout.write(options.json ? `${JSON.stringify(view, null, 2)}\n` : textOf(view));
  return exitCodes.ok;
}

function textOf(view: RunView): string {
  const rows: (readonly [string, string | undefined])[] = [
    ['run', view.runId],
    ['agent', view.agent],
    ['status', view.cancelling ? `${view.status}, asked to stop` : view.status],
    ['error', view.error && `${view.error.code}: ${oneLine(view.error.message, 400)}`],
    ['thread', view.thread],
    ['execution', view.executionId],
    ['created', view.createdAt],
    ['duration', view.durationMs === undefined ? undefined : duration(view.durationMs)],
    ['tokens', view.usage && count(view.usage.total)],
    ['cost', formatUsd(view.costMicrocents)],
    ['steps', String(view.steps)],
    ['attempts', String(view.attempts.length)],
    ['recoveries', view.recoveries > 0 ? String(view.recoveries) : undefined],
    ['worker', view.worker],
    [
      'waits for',
      view.pending.map((item) => `${item.kind} ${item.toolName ?? ''} (${item.id})`).join(', ') || undefined,
    ],
    ...Object.entries(view.metadata ?? {}).map(([key, value]) => [key, oneLine(value, 200)] as const),
  ];
  const shown = rows.filter((row): row is readonly [string, string] => row[1] !== undefined);
  return table(shown) + (view.result?.text ? `\n${printable(view.result.text)}\n` : '');
}
