import { problemsOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import { defined } from '../../shared/base/collections.ts';
import { systemClock, type Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { addUsage, zeroUsage, type Usage } from '../../shared/contract/money.ts';
import { clip } from '../../shared/base/text.ts';
import { foreignAnswer } from './orchestration.ts';
import { evaluateBy, evaluation, type Evaluation, type Generated, type Rubric } from './rubric.ts';

/**
 * `pass`: an answer passed. `maxIterations`: none of so many did. `generator-exhausted`: the generator had no further
 * answer. `cancelled`: the signal was aborted.
 */
export type Termination = 'pass' | 'maxIterations' | 'generator-exhausted' | 'cancelled';

/** Makes an answer, after the first one with the critique of the one before; `undefined`: it has none. */
export type AnswerGenerator<I, T> = (
  input: I,
  priorCritique: string | undefined,
  iteration: number,
  signal: AbortSignal,
) => Promise<Generated<T> | undefined>;

export type AnswerEvaluator<T> = (
  ...asked: [output: T, iteration: number, signal: AbortSignal]
) => Promise<Evaluation> | Evaluation;

export type EvaluatorOptimizerOptions<I, T> = {
  readonly input: I;
  readonly generator: AnswerGenerator<I, T>;
  /** How often the generator is asked at most, from 1. */
  readonly maxIterations: number;
  /** Which answer is the result. `best-score`: the first of the highest ones; the last one where none has a score. */
  readonly result?: 'last-iteration' | 'best-score';
} & (
  | { readonly evaluator: AnswerEvaluator<T>; readonly rubric?: undefined }
  | { readonly rubric: Rubric; readonly evaluator?: undefined }
);

export interface Iteration<T> {
  /** From 1. */
  readonly iteration: number;
  readonly output: T;
  readonly passed: boolean;
  readonly score?: number;
  readonly critique?: string;
}

export interface EvaluatorOptimizerResult<T> {
  readonly termination: Termination;
  /** The answer that was chosen; absent where none was evaluated. */
  readonly best?: Iteration<T>;
  readonly iterations: readonly Iteration<T>[];
  /** Of the generator and the evaluator, as far as they report it. */
  readonly usage: Usage;
  readonly costMicrocents: number;
}

export interface EvaluatorOptimizerDeps {
  readonly signal?: AbortSignal;
  /** Gets `agent.evaluator.iteration` after each, and `agent.evaluator.converged` at the end. */
  readonly emit?: (event: EventBody) => void;
  readonly clock?: Clock;
}

const maxCritiqueChars = 16_000;

type Paid = Pick<Evaluation, 'usage' | 'costMicrocents'>;

const aFunction = z.custom<unknown>((value) => typeof value === 'function', 'must be a function');
const judged = {
  criteria: z.string().min(1),
  judge: z.custom((value) => has(value, 'run'), 'must have a function run'),
};
const rubric = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('free-form'), ...judged }),
  z.strictObject({
    kind: z.literal('zod'),
    schema: z.custom((value) => has(value, 'safeParseAsync'), 'must be a schema of zod'),
  }),
  z.strictObject({ kind: z.literal('llm-judge'), ...judged, passScore: z.number().min(0).max(10).optional() }),
]);
const given = z
  .strictObject({
    input: z.unknown(),
    generator: aFunction,
    evaluator: aFunction.optional(),
    rubric: rubric.optional(),
    maxIterations: z.int().min(1).max(1_000),
    result: z.enum(['last-iteration', 'best-score']).optional(),
  })
  .refine((one) => (one.evaluator === undefined) !== (one.rubric === undefined), 'give an evaluator or a rubric');

/**
 * Asks for an answer, evaluates it, and asks again with the critique, until one passes. Throws `invalid_config` before
 * anything starts, and what the generator or the evaluator throws; a cancel is no error. What happens depends only on what
 * the two answer, so the same answers give the same result again.
 */
export async function evaluatorOptimizer<I, T>(
  options: EvaluatorOptimizerOptions<I, T>,
  { signal = new AbortController().signal, emit = () => {}, clock = systemClock }: EvaluatorOptimizerDeps = {},
): Promise<EvaluatorOptimizerResult<T>> {
  check(options);
  const { input, generator, maxIterations, result = 'last-iteration' } = options;
  const iterations: Iteration<T>[] = [];
  let [usage, costMicrocents] = [zeroUsage, 0];
  const pay = (paid: Paid) => {
    if (paid.usage) usage = addUsage(usage, paid.usage);
    costMicrocents += paid.costMicrocents ?? 0;
  };
  const end = (termination: Termination): EvaluatorOptimizerResult<T> => {
    emit({ type: 'agent.evaluator.converged', termination, iterations: iterations.length });
    const best = result === 'best-score' ? highest(iterations) : iterations.at(-1);
    return { termination, ...(best && { best }), iterations, usage, costMicrocents };
  };
  for (let iteration = 1; iteration <= maxIterations; iteration++) {
    const prior = iterations.at(-1)?.critique;
    const made = await foreignAnswer((inner) => generator(input, prior, iteration, inner), clock, signal);
    if (made?.value) pay(made.value);
    if (!made || signal.aborted) return end('cancelled');
    if (made.value === undefined) return end('generator-exhausted');
    const { output } = made.value;
    const judged = await foreignAnswer((inner) => evaluate(options, output, iteration, inner), clock, signal);
    if (!judged) return end('cancelled');
    const { passed, score, critique } = judged.value;
    pay(judged.value);
    iterations.push({ iteration, output, passed, ...defined({ score, critique }) });
    emit({ type: 'agent.evaluator.iteration', iteration, passed, ...defined({ score }) });
    if (passed) return end('pass');
  }
  return end('maxIterations');
}

function check(options: unknown): void {
  const checked = given.safeParse(options);
  if (checked.success) return;
  const problems = problemsOf(checked.error, 'options');
  throw new RunError('invalid_config', `evaluator-optimizer: ${problems.join('; ')}`, { details: problems });
}

function has(value: unknown, method: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, method) === 'function';
}

/** An evaluator is foreign code: what it answers is read before it decides anything. */
async function evaluate<I, T>(
  { evaluator, rubric: by }: EvaluatorOptimizerOptions<I, T>,
  output: T,
  iteration: number,
  signal: AbortSignal,
): Promise<Evaluation> {
  const answer = evaluator ? await evaluator(output, iteration, signal) : await evaluateBy(by, output, signal);
  const read = evaluation.safeParse(answer);
  if (!read.success)
    throw new RunError('validation', 'the evaluator did not answer an evaluation', { cause: read.error });
  const { critique, ...rest } = read.data;
  return { ...rest, ...(critique !== undefined && { critique: clip(critique, maxCritiqueChars) }) };
}

function highest<T>(iterations: readonly Iteration<T>[]): Iteration<T> | undefined {
  const scored = iterations.flatMap((one) => (one.score === undefined ? [] : [{ one, score: one.score }]));
  const [first, ...rest] = scored;
  if (!first) return iterations.at(-1);
  return rest.reduce((best, next) => (next.score > best.score ? next : best), first).one;
}
