import { z } from 'zod';
import { sha256 } from '../../base/ids.ts';
import { isRecord } from '../../base/json.ts';

/**
 * Keys of a run's metadata with the digest of their value, where the archive has that masked because it looks like a credential, or
 * cut: a run is found by what it was given, and a value that cannot be read must not keep a run from being erased.
 */
export const changedLabels = z.array(z.tuple([z.string(), z.string()])).readonly();
export type ChangedLabels = z.infer<typeof changedLabels>;

/** Metadata by which runs are looked for. */
export type Labels = Readonly<Record<string, string>>;

/** The labels of a run that its archived metadata does not have. Undefined: it has all. */
export function changedLabelsOf(runId: string, metadata: unknown, archived: unknown): ChangedLabels | undefined {
  if (!isRecord(metadata)) return undefined;
  const changed = Object.entries(metadata).flatMap(([key, value]) =>
    hasLabel(archived, key, value) ? [] : [[key, digestOf(runId, key, String(value))] satisfies ChangedLabels[number]],
  );
  return changed.length === 0 ? undefined : changed;
}

/** A run whose metadata is looked through. */
export interface Labelled {
  readonly runId: string;
  readonly metadata: unknown;
  readonly changed?: ChangedLabels | undefined;
}

/** Does a run have each of these keys with exactly this value? */
export function hasLabels({ runId, metadata, changed = [] }: Labelled, labels: Labels): boolean {
  const had = (key: string, value: string) =>
    changed.some(([name, digest]) => name === key && digest === digestOf(runId, key, value));
  return Object.entries(labels).every(([key, value]) => hasLabel(metadata, key, value) || had(key, value));
}

function hasLabel(metadata: unknown, key: string, value: unknown): boolean {
  return isRecord(metadata) && Object.hasOwn(metadata, key) && metadata[key] === value;
}

/** Different for each run: a digest does not say which runs belong together. */
function digestOf(runId: string, key: string, value: string): string {
  return sha256([runId, key, value].map((part) => `${part.length} ${part}`).join(''));
}
