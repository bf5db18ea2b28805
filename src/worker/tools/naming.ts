import { RunError } from '../../shared/base/errors.ts';
import { isFreeForServers } from './names.ts';
import type { Tool } from './tool.ts';

/** What two tools of one name come to. See `toolCollisions` of the agent. */
export type Collisions = 'auto-prefix' | 'priority' | 'manual';

const maxNameChars = 64;

/**
 * Gives each tool a name of its own: the first tool of a name keeps it, and a server's tool never gets a name that is
 * reserved. Throws `validation` naming every name that is given twice where collisions are the author's to solve.
 */
export function distinctlyNamed(given: readonly Tool[], collisions: Collisions): readonly Tool[] {
  const byName = new Map<string, Tool>();
  const doubles = new Set<string>();
  for (const tool of given) {
    const { name, source } = tool;
    const isFree = !byName.has(name) && (source === undefined || isFreeForServers(name));
    if (isFree) byName.set(name, tool);
    else if (collisions === 'manual') doubles.add(name);
    else if (collisions === 'auto-prefix') {
      const free = freeName(tool, byName);
      byName.set(free, { ...tool, name: free });
    }
  }
  if (doubles.size > 0) throw new RunError('validation', `tools with the same name: ${[...doubles].join(', ')}`);
  return [...byName.values()];
}

function freeName({ source, trust, name }: Tool, taken: ReadonlyMap<string, unknown>): string {
  const prefixed = `${source?.server ?? trust}__${name}`.slice(0, maxNameChars);
  for (let number = 1; ; number++) {
    const suffix = number === 1 ? '' : `_${number}`;
    const candidate = prefixed.slice(0, maxNameChars - suffix.length) + suffix;
    if (!taken.has(candidate)) return candidate;
  }
}
