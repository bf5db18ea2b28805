import { dateTime, dim, duration, oneLine, table } from './show/paint.ts';
import { collect, printJson, examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { Option } from 'commander';
import { formatUsd } from '../../shared/contract/money.ts';
import { runStatus, type RunStatus, type RunView } from '../../shared/contract/run.ts';
import { openClient } from './options/open-client.ts';
import { wholeNumber } from './options/arguments.ts';
import { waitsFor } from './show/pending.ts';

interface Options {
  readonly status?: RunStatus;
  readonly agent?: string;
  readonly thread?: string;
  readonly parent?: string;
  readonly limit: number;
  readonly json?: true;
}

export const addRuns: AddCommand = (program, act) => {
  program
    .command('runs')
    .description('List runs, newest first.')
    .addOption(new Option('--status <status>', 'only these').choices(runStatus.options))
    .option('--agent <id>', 'only runs of this agent')
    .option('--thread <id>', 'only runs of this thread')
    .option('--parent <run>', 'only runs that work for this run')
    .option('--limit <n>', 'at most so many', wholeNumber(1, 100_000), 20)
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('millrace runs --status failed --limit 50', 'millrace runs --agent support --json'))
    .action(act(runs));
};

async function runs(cli: Cli, options: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const { status, agent, thread, parent, limit } = options;
  const { found, more } = await collect(cli, limit, async (range) => {
    const { runs: items, cursor } = await mill.list(defined({ ...range, status, agent, thread, parent }));
    return { items, cursor };
  });
  if (options.json) return printJson(cli, found);
  const heading = ['RUN', 'STATUS', 'AGENT', 'CREATED', 'DURATION', 'COST', ''];
  cli.stdout.write(found.length === 0 ? '' : table([heading, ...found.map(rowOf)]));
  if (found.length === 0) cli.stderr.write('There are no such runs.\n');
  else if (more) cli.stderr.write(`${dim(cli.stderr, `There may be more: --limit ${limit * 2}`)}\n`);
  return exitCodes.ok;
}

function rowOf(view: RunView): string[] {
  const note = view.error ? `${view.error.code}: ${oneLine(view.error.message, 60)}` : oneLine(waitsFor(view), 80);
  return [
    view.runId,
    view.status,
    view.agent,
    dateTime(view.createdAt),
    view.durationMs === undefined ? '' : duration(view.durationMs),
    formatUsd(view.costMicrocents),
    note,
  ];
}
