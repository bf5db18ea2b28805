import { openClient } from './options/open-client.ts';
import { examples } from './cli.ts';
import { followOrDetach, inputFrom, requestFrom, startOptions } from './options/start-options.ts';
import { command, flag, text, value } from './options/command.ts';
import { fileOption, inputWith } from './options/input-files.ts';
import { dialectOption, wholeNumber } from './options/arguments.ts';

export const addRun = command('run <agent> [input]', {
  description: 'Enqueue one run and stream it to the terminal.',
  options: [
    text('--thread <id>', 'make it the next message of this thread; an id that is new begins one'),
    flag('--compact', 'have the older part of the thread summarised first; needs --thread'),
    text('--model <name>', 'use this model instead of the agent’s own'),
    text('--task <id>', 'have the run work on this task of the agents’ folder'),
    value('--max-steps <n>', 'at most n rounds of tool calls, so n + 1 model calls', wholeNumber(1, 10_000)),
    value('--max-model-calls <n>', 'at most n model calls; the agent’s own limit holds, too', wholeNumber(1, 10_000)),
    fileOption,
    dialectOption(),
    ...startOptions,
  ],
  help:
    examples(
      'millrace run support "Where is order 7?"',
      'cat letter.txt | millrace run summarise - --max-cost 0.05',
      'millrace run support "Where is order 7?" --json | jq .type',
      'millrace run clerk "What is owed?" --file invoice.pdf',
    ) + '\n\nCtrl-C stops following the run, which goes on; `millrace cancel RUN` stops it.',
  work: async (cli, agent, given, options) => {
    const { thread, compact, model, task, file, maxSteps, maxModelCalls: maxLlmCalls } = options;
    const input = await inputFrom(
      cli,
      given,
      `\`millrace run ${agent} "your question"\`, or pipe it: \`cat letter.txt | millrace run ${agent} -\``,
    );
    const overrides = model === undefined ? undefined : { model };
    const limits = maxSteps === undefined && maxLlmCalls === undefined ? undefined : { maxSteps, maxLlmCalls };
    const asked = {
      ...requestFrom(options),
      agent,
      thread,
      compact: compact ? (true as const) : undefined,
      overrides,
      task,
      limits,
    };
    await using mill = openClient(cli);
    const request = { ...asked, input: await inputWith(input, file, mill) };
    return await followOrDetach(cli, mill, await mill.enqueue(request, { signal: cli.interrupted }), options);
  },
});
