import { readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import type { z } from 'zod';
import { RunError } from './errors.ts';

/** Reads a YAML file and checks it. Throws `invalid_config` whose details list every problem, with the file's name. */
export function readYamlFile<S extends z.ZodType>(path: string, schema: S): z.output<S> {
  const document = parseDocument(contents(path));
  const syntax = document.errors.map((error) => error.message.split('\n', 1)[0] ?? 'is not YAML');
  if (syntax.length > 0) throw invalid(path, syntax);
  const parsed = schema.safeParse(document.toJS({ maxAliasCount: 100 }));
  if (parsed.success) return parsed.data;
  throw invalid(
    path,
    parsed.error.issues.map((issue) => `${issue.path.join('.') || 'the file'}: ${issue.message}`),
  );
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
