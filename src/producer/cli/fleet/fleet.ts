import { count, duration } from '../../../shared/base/words.ts';
import type { FleetView, ProviderLimit } from '../../../shared/contract/report/fleet.ts';
import { printJson, examples, exitCodes, type AddCommand, type Cli, type ExitCode } from '../cli.ts';
import { openClient } from '../options/open-client.ts';
import { listTable, nameColumn, textColumn } from '../show/list-table.ts';

interface Options {
  readonly json?: true;
}

export const addFleet: AddCommand = (program, act) => {
  program
    .command('fleet')
    .description('Show workers with what they do, and what of the limits of providers is in use.')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('millrace fleet'))
    .action(act(fleet));
};

const workerColumns = [nameColumn('WORKER'), textColumn('QUEUES'), nameColumn('BUSY'), textColumn('RUNS')];
const limitColumns = [
  nameColumn('MODEL'),
  nameColumn('REQUESTS'),
  nameColumn('TOKENS'),
  nameColumn('IN FLIGHT'),
  nameColumn('WAITING'),
];

async function fleet(cli: Cli, { json }: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const view = await mill.fleet();
  if (json) return printJson(cli, view);
  const { workers, limits } = view;
  if (workers.length === 0) cli.stdout.write('No worker is alive: start one with millrace worker.\n');
  else cli.stdout.write(listTable(workerColumns, workers.map(workerRow), cli.stdout));
  if (limits.length > 0) cli.stdout.write(`\n${listTable(limitColumns, limits.map(limitRow), cli.stdout)}`);
  return exitCodes.ok;
}

function workerRow({ name, queues, active, concurrency, runs }: FleetView['workers'][number]): string[] {
  const doing = runs.map(
    ({ runId, agent, since }) => `${runId} (${agent}, ${duration(Math.max(0, Date.now() - Date.parse(since)))})`,
  );
  return [name, queues.join(', '), `${active} of ${concurrency}`, doing.join(', ') || '–'];
}

function limitRow({ model, windowMs, requests, usedRequests, tokens, usedTokens, ...use }: ProviderLimit): string[] {
  const { concurrency, inFlight, waiting, cooldownMs } = use;
  const of = (used: number, allowed: number) => (allowed === 0 ? count(used) : `${count(used)} of ${count(allowed)}`);
  const per = ` in ${duration(windowMs)}`;
  const rest = cooldownMs > 0 ? `, asked again in ${duration(cooldownMs)}` : '';
  return [
    model,
    of(usedRequests, requests) + per,
    of(usedTokens, tokens) + per,
    of(inFlight, concurrency),
    `${count(waiting)}${rest}`,
  ];
}
