import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { openClient } from './options/open-client.ts';
import { examples, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import {
  followOrDetach,
  inputFrom,
  requestFrom,
  withStartOptions,
  type StartOptions,
} from './options/start-options.ts';
import { wholeNumber } from './options/arguments.ts';

interface Options extends StartOptions {
  readonly input?: string;
  readonly intent?: string;
  readonly agent?: string;
  readonly maxSteps?: number;
}

export const addTask: AddCommand = (program, act) => {
  withStartOptions(
    program
      .command('task <adapter>')
      .description('Run a task over an adapter that workers have.')
      .option('--input <json>', 'what the task is about, as JSON; `-` reads it from stdin')
      .option('--intent <text>', 'what is to be achieved, in words')
      .option('--agent <id>', 'whose run it is (default: the name of the adapter)')
      .option('--max-steps <n>', 'end the task after so many steps (default: 8)', wholeNumber(1, 1_000)),
  )
    .addHelpText(
      'after',
      `${examples(
        'millrace task tidy-up --max-steps 20',
        `millrace task inbox --input '{"folder":"new"}' --max-cost 0.50`,
      )}\n\nA task that asks waits for an answer: \`millrace approvals\` lists it.`,
    )
    .action(act(task));
};

async function task(cli: Cli, adapter: string, options: Options): Promise<ExitCode> {
  const { intent, agent, maxSteps } = options;
  const input = options.input === undefined ? undefined : jsonFrom(await inputFrom(cli, options.input, ''));
  await using mill = openClient(cli);
  const run = await mill.task(
    {
      adapter,
      input,
      intent,
      limits: maxSteps === undefined ? undefined : { maxSteps },
    },
    defined({ ...requestFrom(options), agent, signal: cli.interrupted }),
  );
  return await followOrDetach(cli, mill, run, options);
}

function jsonFrom(given: string): unknown {
  try {
    return JSON.parse(given);
  } catch (cause) {
    throw new RunError('validation', '--input is not JSON', { cause });
  }
}
