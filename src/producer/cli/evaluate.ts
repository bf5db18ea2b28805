import { openClient } from './options/open-client.ts';
import { examples } from './cli.ts';
import { followOrDetach, inputFrom, requestFrom, startOptions } from './options/start-options.ts';
import { command, flag, required, text, value, valueOr } from './options/command.ts';
import { positiveNumber, wholeNumber } from './options/arguments.ts';

export const addEvaluate = command('evaluate <generator>', {
  description: 'Ask an agent again, with a critique, until its answer is good enough.',
  options: [
    required('--judge <name>', 'the agent that gives points'),
    text('--input <text>', 'what the generator is asked; `-` reads it from stdin'),
    text('--rubric <text>', 'what a good answer is (default: the instructions of the judge)'),
    value('--pass-score <points>', 'so many of 10 points pass (default: 8); needs --rubric', positiveNumber),
    valueOr('--max-iterations <n>', 'ask the generator so many times at most', wholeNumber(1, 50), 3),
    flag('--best', 'take the answer with the most points in place of the last one'),
    ...startOptions,
  ],
  help: examples(
    'millrace evaluate writer --judge editor --rubric "Three sentences." --input "What is a tide?"',
    'cat letter.txt | millrace evaluate translator --judge proofreader --max-iterations 5 --best',
  ),
  work: async (cli, generator, options) => {
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
  },
});
