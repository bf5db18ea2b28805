import { dateTime, dim, duration, oneLine, table } from './show/paint.ts';
import { collect, printJson, examples, exitCodes } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import { runStatus, type RunView } from '../../shared/contract/run.ts';
import { asJson, choice, command, text, valueOr } from './options/command.ts';
import { openClient } from './options/open-client.ts';
import { wholeNumber } from './options/arguments.ts';
import { waitsFor } from './show/pending.ts';

export const addRuns = command('runs', {
  description: 'List runs, newest first.',
  options: [
    choice('--status <status>', 'only these', runStatus.options),
    text('--agent <id>', 'only runs of this agent'),
    text('--thread <id>', 'only runs of this thread'),
    text('--parent <run>', 'only runs that work for this run'),
    valueOr('--limit <n>', 'at most so many', wholeNumber(1, 100_000), 20),
    asJson,
  ],
  help: examples('millrace runs --status failed --limit 50', 'millrace runs --agent support --json'),
  work: async (cli, { status, agent, thread, parent, limit, json }) => {
    await using mill = openClient(cli);
    const { found, more } = await collect(cli, limit, async (range) => {
      const { runs: items, cursor } = await mill.list(defined({ ...range, status, agent, thread, parent }));
      return { items, cursor };
    });
    if (json) return printJson(cli, found);
    const heading = ['RUN', 'STATUS', 'AGENT', 'CREATED', 'DURATION', 'COST', ''];
    cli.stdout.write(found.length === 0 ? '' : table([heading, ...found.map(rowOf)]));
    if (found.length === 0) cli.stderr.write('There are no such runs.\n');
    else if (more) cli.stderr.write(`${dim(cli.stderr, `There may be more: --limit ${limit * 2}`)}\n`);
    return exitCodes.ok;
  },
});

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
