import { RunError } from '../../shared/errors.ts';
import type { Tool } from './tool.ts';

/** What two tools of one name come to. See `toolCollisions` of the agent. */
export type Collisions = 'auto-prefix' | 'priority' | 'manual';

/** A tool under the name that the model is shown. */
export interface NamedTool {
  readonly tool: Tool;
  /** The name that it came with. */
  readonly givenName: string;
}

const maxNameChars = 64;

/**
 * Gives each tool a name of its own: the first tool of a name keeps it. Throws `validation` naming every name that is given
 * twice where collisions are the author's to solve.
 */
export function distinctlyNamed(given: readonly Tool[], collisions: Collisions): readonly NamedTool[] {
  const byName = new Map<string, NamedTool>();
  const doubles = new Set<string>();
  for (const tool of given) {
    const { name: givenName } = tool;
    if (!byName.has(givenName)) byName.set(givenName, { tool, givenName });
    else if (collisions === 'manual') doubles.add(givenName);
    else if (collisions === 'auto-prefix') {
      const name = freeName(tool, byName);
      byName.set(name, { tool: { ...tool, name }, givenName });
    }
  }
  if (doubles.size > 0) throw new RunError('validation', `tools with the same name: ${[...doubles].join(', ')}`);
  return [...byName.values()];
}

function freeName({ source, trust, name }: Tool, taken: ReadonlyMap<string, unknown>): string {
  const prefixed = `${source ?? trust}__${name}`.slice(0, maxNameChars);
  for (let number = 1; ; number++) {
    const suffix = number === 1 ? '' : `_${number}`;
    const candidate = prefixed.slice(0, maxNameChars - suffix.length) + suffix;
    if (!taken.has(candidate)) return candidate;
  }
}
