import { openClient } from './options/open-client.ts';
import { examples, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import {
  followOrDetach,
  inputFrom,
  requestFrom,
  withStartOptions,
  type StartOptions,
} from './options/start-options.ts';
import { positiveNumber, wholeNumber } from './options/arguments.ts';

interface Options extends StartOptions {
  readonly input?: string;
  readonly judge: string;
  readonly rubric?: string;
  readonly passScore?: number;
  readonly maxIterations: number;
  readonly best?: true;
}

export const addEvaluate: AddCommand = (program, act) => {
  withStartOptions(
    program
      .command('evaluate <generator>')
      .description('Ask an agent again, with a critique, until its answer is good enough.')
      .requiredOption('--judge <agent>', 'the agent that gives points')
      .option('--input <text>', 'what the generator is asked; `-` reads it from stdin')
      .option('--rubric <text>', 'what a good answer is (default: the instructions of the judge)')
      .option('--pass-score <points>', 'so many of 10 points pass (default: 8); needs --rubric', positiveNumber)
      .option('--max-iterations <n>', 'ask the generator so many times at most', wholeNumber(1, 50), 3)
      .option('--best', 'take the answer with the most points in place of the last one'),
  )
    .addHelpText(
      'after',
      examples(
        'millrace evaluate writer --judge editor --rubric "Three sentences." --input "What is a tide?"',
        'cat letter.txt | millrace evaluate translator --judge proofreader --max-iterations 5 --best',
      ),
    )
    .action(act(evaluate));
};

async function evaluate(cli: Cli, generator: string, options: Options): Promise<ExitCode> {
  const { judge, rubric, passScore, maxIterations, best } = options;
  const input = await inputFrom(cli, options.input, 'give it with --input, or `--input -` to read it from stdin');
  await using mill = openClient(cli);
  const run = await mill.evaluate(
    {
      ...requestFrom(options),
      input,
      generator,
      evaluator: rubric === undefined ? judge : { judge, rubric, passScore },
      maxIterations,
      select: best ? 'best-score' : undefined,
    },
    { signal: cli.interrupted },
  );
  return await followOrDetach(cli, mill, run, options);
}
