import { jsonCopy, type Json } from '../../../shared/base/json-value.ts';
import { maxTaskStateBytes, type KnowledgeRequirement } from '../../../shared/contract/orchestration/task.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { z } from 'zod';

/** What is not known of what a task needs. */
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

/** What `onKnowledgeBlocked` has answered: an object with `knowledge`, or nothing. Throws `validation`. */
export function readFound(answer: unknown): Json {
  if (answer === undefined || answer === null) return { knowledge: {} };
  const read = found.safeParse(jsonCopy(answer, 'what onKnowledgeBlocked answers', maxTaskStateBytes));
  if (read.success) return read.data;
  throw new RunError(
    'validation',
    'onKnowledgeBlocked: must answer with an object that has the field knowledge, or nothing',
  );
}
