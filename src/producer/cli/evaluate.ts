import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { z } from 'zod';
import { messageOf, RunError } from '../../shared/base/errors.ts';
import { isRecord } from '../../shared/base/json.ts';
import type { evaluateRequest } from '../../shared/contract/orchestration/requests.ts';
import { openClient } from './options/open-client.ts';
import { examples, type Cli } from './cli.ts';
import { followOrDetach, inputFrom, requestFrom, startOptions } from './options/start-options.ts';
import { command, flag, text, value, valueOr } from './options/command.ts';
import { positiveNumber, wholeNumber } from './options/arguments.ts';

type EvaluateInput = z.input<typeof evaluateRequest>;

interface Given {
  readonly judge?: string | undefined;
  readonly schema?: string | undefined;
  readonly rubric?: string | undefined;
  readonly passScore?: number | undefined;
}

function evaluatorFrom(cli: Cli, { judge, schema, rubric, passScore }: Given): EvaluateInput['evaluator'] {
  if (schema !== undefined && judge === undefined && rubric === undefined) return { schema: schemaIn(cli, schema) };
  if (judge === undefined || schema !== undefined)
    throw new RunError(
      'validation',
      'say how answers are judged: with --judge, and --rubric if you like, or with --schema',
    );
  return rubric === undefined ? judge : { judge, rubric, passScore };
}

function schemaIn(cli: Cli, file: string): Record<string, unknown> {
  const path = resolve(cli.cwd, file);
  try {
    const schema: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (isRecord(schema)) return schema;
  } catch (cause) {
    throw new RunError('validation', `--schema: ${path}: ${messageOf(cause)}`, { cause });
  }
  throw new RunError('validation', `--schema: ${path}: is no JSON object`);
}

export const addEvaluate = command('evaluate <generator>', {
  description: 'Ask an agent again, with a critique, until its answer is good enough.',
  options: [
    text('--judge <name>', 'the agent that gives points'),
    text('--schema <file>', 'in place of a judge: JSON Schema of an object, which a good answer is as JSON'),
    text('--input <text>', 'what the generator is asked; `-` reads it from stdin'),
    text('--rubric <text>', 'what a good answer is (default: the instructions of the judge)'),
    value('--pass-score <points>', 'so many of 10 points pass (default: 8); needs --rubric', positiveNumber),
    valueOr('--max-iterations <n>', 'ask the generator so many times at most', wholeNumber(1, 50), 3),
    flag('--best', 'take the answer with the most points in place of the last one'),
    ...startOptions,
  ],
  help: examples(
    'millrace evaluate writer --judge editor --rubric "Three sentences." --input "What is a tide?"',
    'millrace evaluate extractor --schema invoice.schema.json --input "$(cat invoice.txt)"',
    'cat letter.txt | millrace evaluate translator --judge proofreader --max-iterations 5 --best',
  ),
  work: async (cli, generator, options) => {
    const { maxIterations, best } = options;
    const input = await inputFrom(cli, options.input, 'give it with --input, or `--input -` to read it from stdin');
    await using mill = openClient(cli);
    const run = await mill.evaluate(
      {
        ...requestFrom(options),
        input,
        generator,
        evaluator: evaluatorFrom(cli, options),
        maxIterations,
        select: best ? 'best-score' : undefined,
      },
      { signal: cli.interrupted },
    );
    return await followOrDetach(cli, mill, run, options);
  },
});
