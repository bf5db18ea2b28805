import { changedParts, type PinnedTool, type ServerPins } from '../../shared/contract/mcp-pins.ts';
import { defined } from '../../shared/base/collections.ts';
import { printJson, examples, exitCodes, thisPerson, type AddCommand, type Cli } from './cli.ts';
import { asJson, command, text } from './options/command.ts';
import { openClient, remoteOf } from './options/open-client.ts';
import { dim } from './show/paint.ts';
import { count, countOf, oneLine } from '../../shared/base/words.ts';

const maxText = 300;

export const addMcp: AddCommand = (program, act) => {
  const mcp = program
    .command('mcp')
    .description('Show and accept what MCP servers say about their tools.')
    .addHelpText(
      'after',
      examples('millrace mcp pins', 'millrace mcp accept tickets', 'millrace mcp accept tickets search'),
    );
  for (const add of [pins, accept]) add(mcp, act);
};

const pins = command('pins', {
  description: 'List servers that agents use with `pin`, and the tools that have changed since their first use.',
  options: [asJson],
  help: examples('millrace mcp pins', 'millrace mcp pins --json'),
  work: async (cli, { json }) => {
    await using mill = openClient(cli);
    const servers = await mill.mcpPins.list();
    if (json) return printJson(cli, servers);
    for (const server of servers) cli.stdout.write(textOf(cli, server));
    if (servers.length === 0) cli.stderr.write('No MCP server has been used with `pin` in the last 90 days.\n');
    return exitCodes.ok;
  },
});

const accept = command('accept <server> [tool]', {
  description: 'Let runs use what a server has changed: one tool, or all that have changed.',
  options: [
    text('--digest <digest>', 'only this change of the tool, as `mcp pins --json` has it'),
    text('--by <name>', 'who accepts it (default: the user of this machine, or the API key)'),
    asJson,
  ],
  help: examples('millrace mcp accept tickets', 'millrace mcp accept tickets search --by ada'),
  work: async (cli, server, tool, { digest, by, json }) => {
    await using mill = openClient(cli);
    const who = defined({ by: remoteOf(cli) ? by : (by ?? thisPerson()) });
    const answer = await mill.mcpPins.accept(server, defined({ tool, digest }), who);
    if (json) return printJson(cli, answer);
    const names = answer.accepted.map((name) => oneLine(name, maxText)).join(', ');
    if (names === '') cli.stderr.write(`Nothing of ${oneLine(answer.pins.server, maxText)} waits to be accepted.\n`);
    else cli.stdout.write(`${oneLine(answer.pins.server, maxText)}: accepted ${names}\n`);
    return exitCodes.ok;
  },
});

function textOf(cli: Cli, { server, id, target, usedAt, tools }: ServerPins): string {
  const changed = tools.filter((tool) => tool.changed);
  const heading = `${oneLine(server, maxText)}  ${countOf(tools.length, 'tool')}, ${count(changed.length)} changed`;
  const about = dim(cli.stdout, `  ${id}  ${oneLine(target, maxText)}  last used ${usedAt}`);
  return [heading, about, ...changed.flatMap((tool) => linesOf(tool))].join('\n') + '\n';
}

/** Both descriptions of a tool, and which other parts differ. */
function linesOf({ tool, accepted, changed }: PinnedTool): string[] {
  if (!changed) return [];
  const parts = accepted ? changedParts(accepted, changed).join(', ') : 'was not there';
  const isSame = accepted?.description === changed.description;
  return [
    `  ${oneLine(tool, maxText)}: ${parts}`,
    ...(accepted && !isSame ? [`    - ${oneLine(accepted.description, maxText)}`] : []),
    ...(isSame ? [] : [`    + ${oneLine(changed.description, maxText)}`]),
    ...(accepted?.inputSchema === changed.inputSchema
      ? []
      : [
          ...(accepted ? [`    - ${oneLine(accepted.inputSchema, maxText)}`] : []),
          `    + ${oneLine(changed.inputSchema, maxText)}`,
        ]),
  ];
}
