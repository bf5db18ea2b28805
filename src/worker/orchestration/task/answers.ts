import { problemsAt } from '../../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { jsonCopy, type Json } from '../../../shared/base/json-value.ts';
import {
  maxTaskActionBytes,
  maxTaskEvalsBytes,
  maxTaskStateBytes,
  taskDecision,
  taskEvals,
  type TaskEval,
  type KnowledgeRequirement,
} from '../../../shared/contract/orchestration/task.ts';
import { usdToMicrocents } from '../../../shared/contract/money.ts';
import type { AnyAdapter } from '../../agents/adapter.ts';

/** What the functions of an adapter answer, as JSON that is what it has to be. All of these throw `validation`. */

export function readState(answer: unknown): Json {
  return jsonCopy(answer, 'the state that observe answers', maxTaskStateBytes);
}

export function readEvals(answer: unknown): Json {
  return parsed(taskEvals, 'validate', jsonCopy(answer, 'what validate answers', maxTaskEvalsBytes));
}

export function readTaskDecision(answer: unknown): Json {
  return parsed(taskDecision, 'decide', jsonCopy(answer, 'what decide answers', maxTaskActionBytes));
}

const stopVerdict = z.strictObject({
  stop: z.boolean(),
  pass: z.boolean().default(false),
  reason: z.string().max(2_000).default('the stop policy of the adapter'),
  score: z.number().min(0).max(1).optional(),
});
export type ReadVerdict = z.infer<typeof stopVerdict>;

export function readVerdict(answer: unknown): Json {
  return parsed(stopVerdict, 'shouldStop', jsonCopy(answer, 'what shouldStop answers', maxTaskEvalsBytes));
}

export interface ActionAnswer {
  readonly result: Json;
  readonly costMicrocents?: number;
}

/** The result of an action, where nothing is `null`, with what it cost. */
export function readResult(answer: unknown, adapter: AnyAdapter, of: { action: unknown; state: unknown }): Json {
  const result = jsonCopy(answer ?? null, 'the result that act answers', maxTaskStateBytes);
  const usd = adapter.getActionCostUsd?.({ ...of, result });
  if (usd === undefined) return { result };
  if (typeof usd !== 'number' || !(usd >= 0 && usd < Number.MAX_SAFE_INTEGER / 1e8))
    throw new RunError(
      'validation',
      'getActionCostUsd: must answer with an amount of USD that is not negative, or nothing',
    );
  return { result, costMicrocents: usdToMicrocents(usd) };
}

function parsed(schema: z.ZodType, name: string, value: Json): Json {
  const read = schema.safeParse(value);
  if (read.success) return jsonCopy(read.data, name, Number.MAX_SAFE_INTEGER);
  const problems = problemsAt(read.error, name);
  throw new RunError('validation', problems.slice(0, 20).join('; '), { details: problems });
}

/** The mean of all checks: their scores, or 1 and 0 for those that only passed or failed. Undefined without checks. */
export function meanScore(evals: readonly TaskEval[]): number | undefined {
  if (evals.length === 0) return undefined;
  return evals.reduce((sum, one) => sum + scoreOf(one), 0) / evals.length;
}

export function scoreOf({ score, passed }: Pick<TaskEval, 'score' | 'passed'>): number {
  return score ?? (passed ? 1 : 0);
}

/** Are there checks, and did all pass that matter? `info` and `warning` do not. */
export function hasPassed(evals: readonly TaskEval[]): boolean {
  return (
    evals.length > 0 && evals.every(({ passed, severity }) => passed || severity === 'info' || severity === 'warning')
  );
}

export interface Readiness {
  /** Nothing that is required is missing. */
  readonly ready: boolean;
  /** Ids, also of what is only wished for. */
  readonly missing: readonly string[];
  readonly questions: readonly string[];
  readonly acquisitionPlan: readonly string[];
}

/** Compares what is needed with what is known; `null` is not known. */
export function readinessOf(
  requirements: readonly KnowledgeRequirement[],
  knowledge: Readonly<Record<string, unknown>>,
): Readiness {
  const missing = requirements.filter(({ id }) => (Object.hasOwn(knowledge, id) ? knowledge[id] : null) === null);
  const required = missing.filter((requirement) => requirement.required);
  return {
    ready: required.length === 0,
    missing: missing.map(({ id }) => id),
    questions: required.map(({ question, description }) => question ?? description),
    acquisitionPlan: required.flatMap(({ acquire }) => acquire ?? []),
  };
}

const found = z.strictObject({ knowledge: z.record(z.string(), z.json()) });

/** The answer of `onKnowledgeBlocked`: an object with `knowledge`, or nothing. Throws `validation`. */
export function readFound(answer: unknown): Json {
  if (answer === undefined || answer === null) return { knowledge: {} };
  const read = found.safeParse(jsonCopy(answer, 'what onKnowledgeBlocked answers', maxTaskStateBytes));
  if (read.success) return read.data;
  throw new RunError(
    'validation',
    'onKnowledgeBlocked: must answer with an object that has the field knowledge, or nothing',
  );
}
