import { resolve } from 'node:path';
import { examples } from '../cli.ts';
import { command, flag, asJson, text } from '../options/command.ts';
import { become } from '../stack/child.ts';

export const addReplay = command('replay <export>', {
  description: 'Run an export of a run against the present definition of its agent, offline, and say where it departs.',
  options: [
    text('--agent <file>', 'file of the agent (default: the agent of the run, in MILLRACE_AGENTS)'),
    flag('--live', 'ask the model of the agent, with the recorded results of tools'),
    asJson,
  ],
  help:
    examples(
      'millrace replay order-7.json',
      'millrace replay order-7.json --agent agents/support.yaml --json',
      'millrace replay order-7.json --live',
    ) +
    '\n\nModels, tools and people answer what they answered then: no provider is asked without --live, and no tool runs. Exit status\n1: the run would go another way.',
  work: async (cli, file, { agent, live, json }) => {
    const given = agent === undefined ? [] : ['--agent', resolve(cli.cwd, agent)];
    const flags = [...(live ? ['--live'] : []), ...(json ? ['--json'] : [])];
    return await become(cli, 'testing', ['replay', resolve(cli.cwd, file), ...given, ...flags]);
  },
});
