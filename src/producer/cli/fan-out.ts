import { RunError } from '../../shared/base/errors.ts';
import type { FanOutRun } from '../client/options.ts';
import { openClient } from './options/open-client.ts';
import { examples } from './cli.ts';
import { followOrDetach, inputFrom, requestFrom, startOptions } from './options/start-options.ts';
import { command, flag, text, value, type ValuesOf } from './options/command.ts';
import { positiveNumber, wholeNumber } from './options/arguments.ts';

const strategyOptions = [
  flag('--first', 'take the first answer, and stop the others'),
  text('--judge <name>', 'have a judge, or an agent, make one answer of all'),
  text('--merge <name>', 'have a merge function of the workers make one answer of all'),
  text('--separator <text>', 'put this between the answers (default: a rule)'),
];

export const addFanOut = command('fan-out <agents...>', {
  description: 'Ask several agents at the same time, and make one answer of theirs.',
  options: [
    text('--input <text>', 'what each is asked; `-` reads it from stdin'),
    ...strategyOptions,
    value('--at-once <n>', 'ask so many at the same time (default: 4)', wholeNumber(1, 64)),
    value('--child-timeout <seconds>', 'stop each of them after so long', positiveNumber),
    ...startOptions,
  ],
  help: examples(
    'millrace fan-out billing shipping --input "What went wrong with order 7?"',
    'millrace fan-out fast careful --first --input "Is 7 prime?"',
    'cat question.txt | millrace fan-out ann ben cleo --judge chair --max-cost 0.10',
  ),
  work: async (cli, agents, options) => {
    const mergeStrategy = strategyOf(options);
    const input = await inputFrom(cli, options.input, 'give it with --input, or `--input -` to read it from stdin');
    await using mill = openClient(cli);
    const { atOnce, childTimeout } = options;
    const run = await mill.fanOut(
      {
        ...requestFrom(options),
        input,
        children: agents.map((agent) => ({ agent })),
        mergeStrategy,
        maxConcurrentChildren: atOnce,
        perBudget: childTimeout === undefined ? undefined : { durationMs: Math.ceil(childTimeout * 1_000) },
      },
      { signal: cli.interrupted },
    );
    return await followOrDetach(cli, mill, run, options);
  },
});

function strategyOf({ first, judge, merge, separator }: ValuesOf<typeof strategyOptions>): FanOutRun['mergeStrategy'] {
  const asked = Object.entries({ first, judge, merge, separator }).filter(([, value]) => value !== undefined);
  if (asked.length > 1)
    throw new RunError('validation', `give one of ${asked.map(([name]) => `--${name}`).join(' and ')}`);
  if (first) return { kind: 'first-success' };
  if (judge !== undefined) return { kind: 'judge-merge', judge };
  if (merge !== undefined) return { kind: 'custom', merge };
  return separator === undefined ? undefined : { kind: 'concat', separator };
}
