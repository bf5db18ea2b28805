import { printJson, examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { openClient } from './options/open-client.ts';
import { listTable, nameColumn, textColumn } from './show/list-table.ts';
import { oneLine } from './show/paint.ts';
import { become } from './stack/child.ts';

interface Options {
  readonly json?: true;
}

export const addAgents: AddCommand = (program, act) => {
  const agents = program
    .command('agents')
    .description('List the agents that workers have loaded.')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('millrace agents', 'millrace agents check ./agents'))
    .action(act((cli: Cli, options: Options) => list(cli, options)));
  agents
    .command('check <folder>')
    .description('Read a folder of agents and report every problem in it at once. Needs no Redis.')
    .option('--json', 'print the agents as one JSON document')
    .addHelpText('after', examples('millrace agents check ./agents'))
    .action(
      act((cli: Cli, folder: string, _: Options, command: { optsWithGlobals(): Options }) =>
        become(cli, 'worker', ['agents', folder, command.optsWithGlobals().json ? '--json' : []].flat()),
      ),
    );
};

const columns = [
  nameColumn('AGENT'),
  nameColumn('MODEL'),
  textColumn('TOOLS'),
  nameColumn('DATA FLOW'),
  textColumn('DESCRIPTION'),
];

async function list(cli: Cli, { json }: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const agents = await mill.agents();
  if (json) return printJson(cli, agents);
  const rows = agents.map(({ id, model, tools, dataFlow = 'off', description }) => [
    id,
    model,
    tools.join(', ') || '–',
    dataFlow,
    oneLine(description ?? '', 80),
  ]);
  cli.stdout.write(rows.length === 0 ? '' : listTable(columns, rows, cli.stdout));
  if (rows.length === 0) cli.stderr.write('No agents are known: no worker has been started there.\n');
  return exitCodes.ok;
}
