import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { RunError } from '../../shared/base/errors.ts';

/** The secrets of tools, by name. */
export interface ToolSecrets {
  get(name: string): string | undefined;
  /** All values, always the same list: for the redactor, and to find them in arguments. */
  values(): readonly string[];
}

const prefix = 'MILLRACE_SECRET_';
const maxBytes = 64 * 1024;
const maxSecrets = 1_000;

/**
 * Reads the secrets of tools once: one for each file in the folder, by the file's name, and one for each entry
 * `MILLRACE_SECRET_<NAME>` of `env`. A line end at the end of a file is not part of its value; files whose names begin with
 * a dot are left out, as Kubernetes keeps its own among the others. Throws `invalid_config` whose details list every
 * problem: none of them holds a value.
 */
export function createToolSecrets({
  folder,
  env,
}: {
  readonly folder?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}): ToolSecrets {
  const found = new Map<string, string>();
  const problems: string[] = [];
  for (const [name, value] of [...inFolder(folder, problems), ...inEnvironment(env)]) {
    if (found.has(name)) problems.push(`secret ${name}: is in ${folder} and in ${prefix}${name}`);
    else if (!/^[A-Za-z0-9._-]{1,128}$/.test(name))
      problems.push(`secret ${name}: its name must be 1 to 128 of A-Z a-z 0-9 . _ -`);
    else if (value === '') problems.push(`secret ${name}: is empty`);
    else if (Buffer.byteLength(value) > maxBytes) problems.push(tooLarge(name));
    found.set(name, value);
  }
  if (found.size > maxSecrets) problems.push(`there are ${found.size} secrets; at most ${maxSecrets} are possible`);
  if (problems.length > 0) throw new RunError('invalid_config', problems.join('\n'), { details: problems });
  return toolSecretsOf(found);
}

/** Secrets that a program holds itself. */
export function toolSecretsOf(secrets: ReadonlyMap<string, string>): ToolSecrets {
  const values = Object.freeze([...secrets.values()]);
  return { get: (name) => secrets.get(name), values: () => values };
}

function inEnvironment(env: Readonly<Record<string, string | undefined>>): [string, string][] {
  return Object.entries(env).flatMap(([variable, value]): [string, string][] =>
    variable.startsWith(prefix) && value !== undefined ? [[variable.slice(prefix.length), value]] : [],
  );
}

function inFolder(folder: string | undefined, problems: string[]): [string, string][] {
  if (folder === undefined) return [];
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => !name.startsWith('.'));
  } catch (error) {
    problems.push(`cannot read the folder ${folder}: ${reasonOf(error)}`);
    return [];
  }
  return names.sort().flatMap((name): [string, string][] => {
    try {
      const path = join(folder, name);
      // Behind links: Kubernetes mounts secrets as such.
      const stat = statSync(path);
      if (!stat.isFile()) return [];
      if (stat.size > maxBytes) problems.push(tooLarge(name));
      else return [[name, new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path)).replace(/\r?\n$/, '')]];
    } catch (error) {
      problems.push(`secret ${name}: cannot be read: ${reasonOf(error)}`);
    }
    return [];
  });
}

function tooLarge(name: string): string {
  return `secret ${name}: is over ${maxBytes} bytes`;
}

function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return 'it is not UTF-8 text';
  return error instanceof Error && 'code' in error ? String(error.code) : 'it failed';
}
