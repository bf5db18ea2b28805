import { printJson, examples, exitCodes, type AddCommand, type Cli, type ExitCode } from '../cli.ts';
import { isRecord } from '../../../shared/base/json.ts';
import { openClient } from '../options/open-client.ts';
import { listTable, nameColumn, textColumn } from '../show/list-table.ts';
import { oneLine } from '../../../shared/base/words.ts';
import { become } from '../stack/child.ts';

interface Options {
  readonly json?: true;
}

export const addAgents: AddCommand = (program, act) => {
  const agents = program
    .command('agents')
    .description('List the agents that workers have loaded.')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('millrace agents', 'millrace agents show support', 'millrace agents check ./agents'))
    .action(act((cli: Cli, options: Options) => list(cli, options)));
  agents
    .command('show <id>')
    .description('Show one agent: its models, its limits, and its tools with how their calls are guarded.')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('millrace agents show support'))
    .action(
      act((cli: Cli, id: string, _: Options, command: { optsWithGlobals(): Options }) =>
        show(cli, id, command.optsWithGlobals()),
      ),
    );
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

const toolColumns = [
  nameColumn('TOOL'),
  nameColumn('EFFECT'),
  nameColumn('APPROVAL'),
  nameColumn('TRUST'),
  nameColumn('SENSITIVITY'),
  textColumn('DESCRIPTION'),
];

async function show(cli: Cli, id: string, { json }: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const agent = await mill.agent(id);
  if (json) return printJson(cli, agent);
  const { description, model, models = [model], definition, toolDetails = [] } = agent;
  cli.stdout.write(`${id}${description === undefined ? '' : `: ${oneLine(description, 200)}`}\n`);
  cli.stdout.write(`models: ${models.join(', ')}\n`);
  if (definition) cli.stdout.write(`limits: ${limitsLine(definition['limits'])}\n`);
  const rows = toolDetails.map((tool) => [
    tool.name,
    tool.effect,
    tool.approval,
    tool.trust,
    tool.sensitivity,
    oneLine(tool.description, 80),
  ]);
  if (rows.length > 0) cli.stdout.write(`\n${listTable(toolColumns, rows, cli.stdout)}`);
  return exitCodes.ok;
}

function limitsLine(limits: unknown): string {
  const set = Object.entries(isRecord(limits) ? limits : {});
  return set.length === 0 ? 'the defaults' : set.map(([name, value]) => `${name} ${String(value)}`).join(', ');
}

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
