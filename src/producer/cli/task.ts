import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { openClient } from './options/open-client.ts';
import { examples } from './cli.ts';
import { followOrDetach, inputFrom, requestFrom, startOptions } from './options/start-options.ts';
import { command, text, value } from './options/command.ts';
import { wholeNumber } from './options/arguments.ts';

export const addTask = command('task <adapter>', {
  description: 'Run a task over an adapter that workers have.',
  options: [
    text('--input <text>', 'what the task is about, as JSON; `-` reads it from stdin'),
    text('--intent <text>', 'what is to be achieved, in words'),
    text('--agent <id>', 'whose run it is (default: the name of the adapter)'),
    value('--max-steps <n>', 'at most n steps of the task: actions and questions (default: 8)', wholeNumber(1, 1_000)),
    ...startOptions,
  ],
  help: `${examples(
    'millrace task tidy-up --max-steps 20',
    `millrace task inbox --input '{"folder":"new"}' --max-cost 0.50`,
  )}\n\nA task that asks waits for an answer: \`millrace approvals\` lists it.`,
  work: async (cli, adapter, options) => {
    const { intent, agent, maxSteps } = options;
    const input = options.input === undefined ? undefined : jsonFrom(await inputFrom(cli, options.input, ''));
    await using mill = openClient(cli);
    const run = await mill.task(
      { adapter, input, intent, limits: maxSteps === undefined ? undefined : { maxSteps } },
      defined({ ...requestFrom(options), agent, signal: cli.interrupted }),
    );
    return await followOrDetach(cli, mill, run, options);
  },
});

function jsonFrom(given: string): unknown {
  try {
    return JSON.parse(given);
  } catch (cause) {
    throw new RunError('validation', `--input is not JSON: ${(cause as Error).message}`, { cause });
  }
}
