import { defined } from '../../../shared/base/collections.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { asRunError, assertNever, RunError } from '../../../shared/base/errors.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import { taskEvals, type TaskEval } from '../../../shared/contract/orchestration/task.ts';
import type { LlmProvider } from '../../llm/provider.ts';
import { within } from '../../../shared/base/deadline.ts';
import type { AgentManifest, ManifestRubric } from './define-manifest.ts';
import { scoreOf } from '../../orchestration/task/answers.ts';

export interface RunManifestOptions {
  /** The model to use in place of the agent's own. */
  readonly provider?: LlmProvider;
  readonly variant?: string;
  readonly signal?: AbortSignal;
  /** For the whole run. Default 300,000. */
  readonly timeoutMs?: number;
}

/** A run that has been measured. */
export interface MeasuredRun<Output> {
  readonly output: Output;
  /** The first 10,000. */
  readonly events: readonly EventBody[];
  readonly evals: readonly TaskEval[];
  readonly score: RubricScore;
}

const maxEvents = 10_000;
const defaultTimeoutMs = 300_000;

/**
 * Runs a manifest for one persona and measures the output with its rubric. Needs no Redis, and no network when the provider
 * needs none. Rejects with what the run or a scorer rejects with, with `run_timeout`, with `cancelled` when the signal aborts,
 * and with `validation` for a score that is not between 0 and 1.
 *
 * @example
 * const { score } = await runManifest(manifest, { question: 'Where is order 7?' }, { provider });
 */
export async function runManifest<Persona, Output>(
  manifest: AgentManifest<Persona, Output>,
  persona: Persona,
  { provider, variant, signal, timeoutMs = defaultTimeoutMs }: RunManifestOptions = {},
): Promise<MeasuredRun<Output>> {
  const events: EventBody[] = [];
  const work = async (inner: AbortSignal) => {
    const context = defined({ signal: inner, provider, variant });
    const run = manifest.run.act(persona, context);
    for await (const event of run.events) if (events.length < maxEvents) events.push(event);
    const output = await run.output;
    const evals = await evalsOf(manifest.rubric, persona, output);
    return { output, evals };
  };
  const ended = await within(timeoutMs, work, systemClock, signal ?? new AbortController().signal);
  switch (ended.kind) {
    case 'value': {
      const { output, evals } = ended.value as { readonly output: Output; readonly evals: readonly TaskEval[] };
      return { output, events, evals, score: scoreWith(manifest.rubric, evals) };
    }
    case 'threw':
      throw asRunError(ended.error);
    case 'timeout':
      throw new RunError('run_timeout', `the run of manifest ${manifest.id} took longer than ${timeoutMs} ms`);
    case 'aborted':
      throw new RunError('cancelled', `the run of manifest ${manifest.id} was cancelled`, { cause: signal?.reason });
    default:
      return assertNever(ended);
  }
}

/** The scores of the rubric's scorers and, for dimensions without one, the evals that the output of a task ended with. */
async function evalsOf<Persona, Output>(
  { dimensions }: ManifestRubric<Persona, Output>,
  persona: Persona,
  output: Output,
): Promise<readonly TaskEval[]> {
  const final = taskEvals.safeParse((output as { finalEvals?: unknown } | null | undefined)?.finalEvals).data ?? [];
  const evals: TaskEval[] = [];
  for (const dimension of dimensions) {
    const { id } = dimension;
    const score = await dimension.score?.({ persona, output });
    const known = final.find((one) => one.id === id);
    if (score !== undefined) evals.push({ id, score: checked(id, score), passed: score >= 0.5 });
    else if (known) evals.push(known);
  }
  return evals;
}

function checked(id: string, score: unknown): number {
  if (typeof score === 'number' && score >= 0 && score <= 1) return score;
  throw new RunError('validation', `the score of dimension ${id} is not between 0 and 1`);
}

/** The score of a run by a rubric. */
export interface RubricScore {
  /** Between 0 and 1: the mean of all dimensions by their weights. */
  readonly score: number;
  readonly dimensions: readonly {
    readonly id: string;
    readonly weight: number;
    readonly score: number;
    /** There was no eval for it, so that it counts as 0. */
    readonly missing: boolean;
  }[];
}

/** Weighs evals by the dimension that has their id. Evals without one do not count. Never throws. */
export function scoreWith(
  rubric: { readonly dimensions: readonly { readonly id: string; readonly weight: number }[] },
  evals: readonly TaskEval[],
): RubricScore {
  const dimensions = rubric.dimensions.map(({ id, weight }) => {
    const found = evals.find((one) => one.id === id);
    return { id, weight, score: found ? scoreOf(found) : 0, missing: found === undefined };
  });
  const total = dimensions.reduce((sum, { weight }) => sum + weight, 0);
  const weighted = dimensions.reduce((sum, { weight, score }) => sum + weight * score, 0);
  return { score: total > 0 ? weighted / total : 0, dimensions };
}
