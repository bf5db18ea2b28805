import { problemsOf } from './problems.ts';
import { readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import type { z } from 'zod';
import { RunError } from './errors.ts';

/** Reads a YAML file and checks it. Throws `invalid_config` whose details list every problem, with the file's name. */
export function readYamlFile<S extends z.ZodType>(path: string, schema: S): z.output<S> {
  const parsed = checkedYaml(contents(path), schema);
  if (parsed.ok) return parsed.value;
  throw invalid(path, parsed.problems);
}

export type CheckedYaml<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly string[] };

/** Reads YAML and checks it. Every problem names its field. Throws for aliases that unfold without end. */
export function checkedYaml<S extends z.ZodType>(text: string, schema: S): CheckedYaml<z.output<S>> {
  const document = parseDocument(text);
  const syntax = document.errors.map((error) => error.message.split('\n', 1)[0] ?? 'is not YAML');
  if (syntax.length > 0) return { ok: false, problems: syntax };
  const parsed = schema.safeParse(document.toJS({ maxAliasCount: 100 }));
  if (parsed.success) return { ok: true, value: parsed.data };
  return { ok: false, problems: problemsOf(parsed.error, 'the file', undefined, schema) };
}

function contents(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new RunError('invalid_config', `cannot read ${path}`, { cause: error });
  }
}

function invalid(path: string, problems: readonly string[]): RunError {
  const named = problems.map((problem) => `${path}: ${problem}`);
  return new RunError('invalid_config', named.join('\n'), { details: named });
}
