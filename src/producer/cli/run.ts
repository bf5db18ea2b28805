import type { DialectName } from '../../shared/dialects/project.ts';
import type { RunRequestInput } from '../../shared/contract/run.ts';
import { openClient } from './options/open-client.ts';
import { examples, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import {
  followOrDetach,
  inputFrom,
  requestFrom,
  withStartOptions,
  type StartOptions,
} from './options/start-options.ts';
import { dialectOption, wholeNumber } from './options/arguments.ts';

interface Options extends StartOptions {
  readonly thread?: string;
  readonly model?: string;
  readonly task?: string;
  readonly maxSteps?: number;
  readonly dialect?: DialectName;
}

export const addRun: AddCommand = (program, act) => {
  withStartOptions(
    program
      .command('run <agent> [input]')
      .description('Enqueue one run and stream it to the terminal.')
      .option('--thread <id>', 'label the run with a thread, to list its runs together')
      .option('--model <name>', 'use this model instead of the agent’s own')
      .option('--task <id>', 'have the run work on this task of the agents’ folder')
      .option('--max-steps <n>', 'end the run after so many steps', wholeNumber(1, 10_000))
      .addOption(dialectOption()),
  )
    .addHelpText(
      'after',
      examples(
        'millrace run support "Where is order 7?"',
        'cat letter.txt | millrace run summarise - --max-cost 0.05',
        'millrace run support "Where is order 7?" --json | jq .type',
      ) + '\n\nCtrl-C stops following the run, which goes on; `millrace cancel RUN` stops it.',
    )
    .action(act(run));
};

async function run(cli: Cli, agent: string, input: string | undefined, options: Options): Promise<ExitCode> {
  const request = requestOf(
    agent,
    await inputFrom(cli, input, 'give it as an argument, or `-` to read it from stdin'),
    options,
  );
  await using mill = openClient(cli);
  return await followOrDetach(cli, mill, await mill.enqueue(request, { signal: cli.interrupted }), options);
}

function requestOf(agent: string, input: string, options: Options): RunRequestInput {
  const { thread, model, task, maxSteps } = options;
  return {
    ...requestFrom(options),
    agent,
    input,
    thread,
    overrides: model === undefined ? undefined : { model },
    task,
    limits: maxSteps === undefined ? undefined : { maxSteps },
  };
}
