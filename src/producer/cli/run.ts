import type { DialectName } from '../../shared/dialects/project.ts';
import { RunError } from '../../shared/errors.ts';
import type { RunRequestInput } from '../../shared/run.ts';
import { openClient } from './client.ts';
import { examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { inputFrom } from './follow-options.ts';
import { dialectOption, keyValue, onExceedOption, positiveNumber, wholeNumber, type OnExceedName } from './options.ts';
import { followRun } from './show/follow-run.ts';

interface Options {
  readonly thread?: string;
  readonly executionId?: string;
  readonly model?: string;
  readonly task?: string;
  readonly maxCost?: number;
  readonly onExceed?: OnExceedName;
  readonly maxSteps?: number;
  readonly deadline?: number;
  readonly metadata?: Record<string, string>;
  readonly timeout?: number;
  readonly detach?: true;
  readonly dialect?: DialectName;
  readonly json?: true;
}

export const addRun: AddCommand = (program, act) => {
  program
    .command('run <agent> [input]')
    .description('Enqueue one run and stream it to the terminal.')
    .option('--thread <id>', 'label the run with a thread, to list its runs together')
    .option('--execution-id <id>', 'the same id and body again attach to the same run')
    .option('--model <name>', 'use this model instead of the agent’s own')
    .option('--task <id>', 'have the run work on this task of the agents’ folder')
    .option('--max-cost <usd>', 'spend no more than this on the run', positiveNumber)
    .addOption(onExceedOption())
    .option('--max-steps <n>', 'end the run after so many steps', wholeNumber(1, 10_000))
    .option('--deadline <seconds>', 'end the run so long after its acceptance, whatever it waits for', positiveNumber)
    .option('--metadata <key=value>', 'attach a value to the run; may be repeated', keyValue)
    .option('--timeout <seconds>', 'wait at most so long; the run itself goes on (exit 1)', positiveNumber)
    .option('--detach', 'print the run id and do not wait')
    .addOption(dialectOption())
    .option('--json', 'print one event a line')
    .addHelpText(
      'after',
      examples(
        'millrace run support "Where is order 7?"',
        'cat letter.txt | millrace run summarise - --max-cost 0.05',
        'millrace run support "Where is order 7?" --json | jq .type',
      ) + '\n\nCtrl-C lets go of the run, which goes on; `millrace cancel RUN` stops it.',
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
  const handle = await mill.enqueue(request, { signal: cli.interrupted });
  for (const warning of handle.warnings) cli.stderr.write(`${warning}\n`);
  if (options.detach) {
    const { runId, status, attached, warnings } = handle;
    cli.stdout.write(`${options.json ? JSON.stringify({ runId, status, attached, warnings }) : runId}\n`);
    return exitCodes.ok;
  }
  return await followRun(cli, mill, handle.runId, {
    json: options.json === true,
    ...(options.dialect && { dialect: options.dialect }),
    ...(options.timeout !== undefined && { timeoutMs: options.timeout * 1_000 }),
  });
}

function requestOf(agent: string, input: string, options: Options): RunRequestInput {
  const { thread, executionId, model, task, maxCost, onExceed, maxSteps, deadline, metadata } = options;
  if (onExceed !== undefined && maxCost === undefined) {
    throw new RunError('validation', '--on-exceed needs --max-cost: without a cap there is nothing to exceed');
  }
  return {
    agent,
    input,
    ...(thread !== undefined && { thread }),
    ...(executionId !== undefined && { executionId }),
    ...(model !== undefined && { overrides: { model } }),
    ...(task !== undefined && { task }),
    ...(maxCost !== undefined && { budget: { maxCostUsd: maxCost, ...(onExceed && { onExceed }) } }),
    ...(maxSteps !== undefined && { limits: { maxSteps } }),
    ...(deadline !== undefined && { deadlineMs: Math.ceil(deadline * 1_000) }),
    ...(metadata && { metadata }),
  };
}
