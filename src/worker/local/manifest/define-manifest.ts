import { problemsOf } from '../../../shared/base/problems.ts';
import { statSync } from 'node:fs';
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { z } from 'zod';
import { unlessAborted } from '../../../shared/base/deadline.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { publicId } from '../../../shared/base/ids.ts';
import { deepFreeze } from '../../../shared/base/json-value.ts';
import { knowledgeRequirements, type KnowledgeRequirement } from '../../../shared/contract/orchestration/task.ts';
import { invalidManifest } from '../../agents/define-judge.ts';
import type { LlmProvider } from '../../llm/provider.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import { EventFeed } from '../../orchestration/task/event-feed.ts';

/** What may be changed to make an agent better: folders and files under the root of the manifest. */
const folders = [
  'systemPrompt',
  'skills',
  'tools',
  'knowledge',
  'personas',
  'scaffolding',
  'memory',
  'rag',
  'mcp',
  'hooks',
  'subagents',
  'workflows',
  'code',
] as const;
const files = ['prompt', 'rubric', 'outputSchema'] as const;
export type SurfaceName = (typeof folders)[number] | (typeof files)[number];

/** How much of a run's score a dimension is, and how it is found. */
export interface RubricDimension<Persona = unknown, Output = unknown> {
  readonly id: string;
  readonly weight: number;
  readonly label?: string;
  /** Between 0 and 1. Absent: the score of the eval with this id, when the output of the run is that of a task. */
  score?(run: { readonly persona: Persona; readonly output: Output }): number | Promise<number>;
}

/** What makes a run good. The weights add up to about 1. */
export interface ManifestRubric<Persona = unknown, Output = unknown> {
  readonly dimensions: readonly RubricDimension<Persona, Output>[];
}

/** What a run of a manifest gets from the program that runs it. */
export interface ManifestContext {
  readonly signal: AbortSignal;
  /** The model to use in place of the agent's own. */
  readonly provider?: LlmProvider;
  /** What is tried out, by the name that the comparing program gave it. */
  readonly variant?: string;
}

/** The fields of a manifest, as its author writes them. */
export interface AgentManifestSource<Persona, Output> {
  readonly id: string;
  /** Where the paths of surfaces begin. Needed when there are any. */
  readonly repoRoot?: string;
  readonly surfaces?: Readonly<Partial<Record<SurfaceName, string>>>;
  /** What has to be known before the agent can work: the requirements of its tasks. */
  readonly knowledge?: readonly z.input<typeof knowledgeRequirements>[number][];
  readonly rubric: ManifestRubric<Persona, Output>;
  readonly run: {
    /** Begins a run for a persona and returns at once. */
    act(persona: Persona, context: ManifestContext): ManifestRun<Output>;
  };
}

/** An agent as something that can be measured and made better. Frozen, with everything in it. */
export interface AgentManifest<Persona = unknown, Output = unknown> extends Required<
  Pick<AgentManifestSource<Persona, Output>, 'id' | 'surfaces' | 'rubric'>
> {
  readonly repoRoot?: string;
  readonly knowledge: readonly KnowledgeRequirement[];
  readonly run: {
    /**
     * Begins a run for a persona. `output` settles once all events were read: by their reader, or here when there is none. Up
     * to 1,000 events wait for a reader that comes later; a reader that stops in the middle delays `output` until it goes on
     * or leaves.
     */
    act(persona: Persona, context: ManifestContext): ManifestRun<Output>;
  };
}

const isFunction = (value: unknown) => typeof value === 'function';
const path = z.string().trim().min(1, 'must not be blank').max(1_000);
const named = <const Names extends readonly string[]>(names: Names) =>
  Object.fromEntries(names.map((name) => [name, path.optional()])) as Record<Names[number], z.ZodOptional<typeof path>>;

const shape = z.strictObject({
  id: publicId,
  repoRoot: path.optional(),
  surfaces: z.strictObject({ ...named(folders), ...named(files) }).default({}),
  knowledge: knowledgeRequirements.default([]),
  rubric: z.strictObject({
    dimensions: z
      .array(
        z.strictObject({
          id: z.string().trim().min(1, 'must not be blank').max(128),
          weight: z.number().min(0),
          label: z.string().max(200).optional(),
          score: z.custom(isFunction, 'must be a function').optional(),
        }),
      )
      .min(1)
      .max(100),
  }),
  run: z.strictObject({ act: z.custom(isFunction, 'must be a function') }),
});

/**
 * Declares what an evaluation can run and improve: surfaces, required knowledge, rubric and run. `id`, `rubric` and `run` are
 * enough. Looks at the surfaces on disk. Throws `agent_manifest_invalid` whose message and details list every problem; unknown
 * fields are problems too. The result is frozen.
 *
 * @example
 * export default defineAgentManifest({
 *   id: 'support',
 *   repoRoot: import.meta.dirname,
 *   surfaces: { prompt: 'prompts/support.md', tools: 'tools' },
 *   rubric: { dimensions: [{ id: 'answered', weight: 1, score: ({ output }) => (output.text ? 1 : 0) }] },
 *   run: { act },
 * })
 */
export function defineAgentManifest<Persona, Output>(
  manifest: AgentManifestSource<Persona, Output>,
): AgentManifest<Persona, Output> {
  const parsed = shape.safeParse(manifest);
  const problems = problemsOf(parsed.error, 'manifest', undefined, shape);
  problems.push(...wrongSurfaces(manifest?.repoRoot, manifest?.surfaces), ...wrongRubric(manifest?.rubric));
  if (!parsed.success || problems.length > 0) throw invalidManifest('agent manifest', manifest?.id, problems);
  const { run } = manifest;
  const act = (persona: Persona, context: ManifestContext) => settled(run.act(persona, context), context.signal);
  return deepFreeze({ ...parsed.data, run: { act } }) as unknown as AgentManifest<Persona, Output>;
}

/** Problems beyond the shape. What has not the right type is left to the shape. */
function wrongSurfaces(repoRoot: unknown, surfaces: unknown): string[] {
  if (surfaces === null || typeof surfaces !== 'object') return [];
  const given = Object.entries(surfaces).filter(([, value]) => typeof value === 'string' && value.trim() !== '');
  if (given.length === 0) return [];
  if (repoRoot === undefined) return ['repoRoot: is needed, because there are surfaces'];
  if (typeof repoRoot !== 'string' || repoRoot.trim() === '') return [];
  const root = resolve(repoRoot);
  if (kindOf(root) !== 'folder') return ['repoRoot: there is no such folder'];
  const problems = given.flatMap(([name, value]) => wrongSurface(root, name, value as string) ?? []);
  if ('systemPrompt' in surfaces && 'prompt' in surfaces)
    problems.push('surfaces: has systemPrompt, a folder, and prompt, a file; give one of them');
  return problems;
}

function wrongSurface(root: string, name: string, value: string): string | undefined {
  const isFolder = (folders as readonly string[]).includes(name);
  if (!isFolder && !(files as readonly string[]).includes(name)) return undefined;
  const target = resolve(root, value.trim());
  const inside = relative(root, target);
  if (inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside))
    return `surfaces.${name}: ${value} is outside of repoRoot`;
  const kind = kindOf(target);
  if (kind === undefined) return `surfaces.${name}: ${value} is missing`;
  if (isFolder && kind !== 'folder') return `surfaces.${name}: ${value} is not a directory`;
  if (!isFolder && kind !== 'file') return `surfaces.${name}: ${value} is not a file`;
  return undefined;
}

function kindOf(target: string): 'folder' | 'file' | 'other' | undefined {
  const found = statSync(target, { throwIfNoEntry: false });
  if (!found) return undefined;
  if (found.isDirectory()) return 'folder';
  return found.isFile() ? 'file' : 'other';
}

function wrongRubric(rubric: unknown): string[] {
  const dimensions = (rubric as { dimensions?: unknown } | null | undefined)?.dimensions;
  if (!Array.isArray(dimensions) || dimensions.length === 0) return [];
  const list = dimensions as readonly ({ id?: unknown; weight?: unknown } | null)[];
  const ids = list.map((dimension) => dimension?.id);
  const twice = new Set(ids.filter((id, at) => typeof id === 'string' && ids.indexOf(id) !== at));
  const problems = [...twice].map((id) => `rubric.dimensions: ${String(id)} is there twice`);
  const weights = list.map((dimension) => dimension?.weight);
  if (!weights.every((weight) => typeof weight === 'number')) return problems;
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  if (total < 0.5 || total > 1.5)
    problems.push(
      `rubric.dimensions: the weights add up to ${Number(total.toFixed(3))}, which is not between 0.5 and 1.5`,
    );
  return problems;
}

/** A run that has begun. */
export interface ManifestRun<Output> {
  /** What an agent's stream or a task's stream hands out. For one reader. */
  readonly events: AsyncIterable<EventBody>;
  readonly output: Promise<Output>;
}

/** How many events wait for a reader. */
const capacity = 1_000;

/**
 * A run whose output settles after its events are drained, by their reader or here. While a reader is there, the source is read
 * no further ahead than there is room. An abort of the signal ends the waiting for a reader. Throws `validation` for what is no
 * run.
 */
function settled<Output>(run: ManifestRun<Output>, signal: AbortSignal): ManifestRun<Output> {
  checkRun(run);
  const feed = new EventFeed<EventBody>(capacity);
  const given = Promise.resolve(run.output);
  // It may fail before its events are at their end; the failure is reported afterwards.
  given.catch(() => {});
  const forwarded = forward(run.events, feed, signal);
  const output = (async () => {
    await forwarded;
    await unlessAborted(feed.drained(), signal).catch(() => {});
    return await given;
  })();
  // A reader of the events alone must not cause an unhandled rejection.
  output.catch(() => {});
  return { events: feed, output };
}

/** Never rejects: what the source throws is thrown to the reader, and the output has the end of the run. */
async function forward(source: AsyncIterable<EventBody>, feed: EventFeed<EventBody>, signal: AbortSignal) {
  try {
    for await (const event of source) {
      await unlessAborted(feed.room(), signal).catch(() => {});
      feed.push(event);
    }
    feed.end();
  } catch (error) {
    feed.end({ error });
  }
}

function checkRun(run: unknown): void {
  const { events, output } = (run ?? {}) as { events?: Partial<AsyncIterable<unknown>>; output?: unknown };
  const isRun =
    typeof events?.[Symbol.asyncIterator] === 'function' &&
    typeof (output as PromiseLike<unknown>)?.then === 'function';
  if (!isRun)
    throw new RunError('validation', 'run.act must return events that can be iterated, and a promise of the output');
}
