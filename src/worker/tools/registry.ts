import { RunError } from '../../shared/errors.ts';
import type { CatalogueEntry, Tool } from './tool.ts';

/** A tool as a model is told about it. */
export type Advertisement = Pick<Tool, 'name' | 'description' | 'parameters'>;

/** What two tools of one name come to. See `toolCollisions` of the agent. */
export type Collisions = 'auto-prefix' | 'priority' | 'manual';

/** The tools of one agent. Names match exactly, letter by letter. */
export interface ToolRegistry {
  /** Also tools that the model has not been told about. */
  find(name: string): Tool | undefined;
  /** Those that a model is told about at once. */
  listEager(): readonly Advertisement[];
  /** Those that it has to look for. */
  listDeferred(): readonly Advertisement[];
  /** What a model is told that has found these, in this order: a stable beginning, so that providers can cache it. */
  advertised(promoted: readonly string[]): readonly Advertisement[];
  catalogue(): readonly CatalogueEntry[];
}

const maxNameChars = 64;

/**
 * The first tool of a name keeps it. Throws `validation` naming every name that is given twice where collisions are the
 * author's to solve.
 */
export function createToolRegistry(given: readonly Tool[], collisions: Collisions = 'manual'): ToolRegistry {
  const byName = new Map<string, Tool>();
  const doubles = new Set<string>();
  for (const tool of given) {
    if (!byName.has(tool.name)) byName.set(tool.name, tool);
    else if (collisions === 'manual') doubles.add(tool.name);
    else if (collisions === 'auto-prefix') {
      const name = freeName(tool, byName);
      byName.set(name, { ...tool, name });
    }
  }
  if (doubles.size > 0) throw new RunError('validation', `tools with the same name: ${[...doubles].join(', ')}`);
  const tools = [...byName.values()];
  const eager = tools.filter((tool) => !tool.deferLoading).map(advertise);
  const deferred = tools.filter((tool) => tool.deferLoading);
  return {
    find: (name) => byName.get(name),
    listEager: () => eager,
    listDeferred: () => deferred.map(advertise),
    advertised: (promoted) => {
      const found = promoted.map((name) => byName.get(name)).filter((tool) => tool?.deferLoading);
      // Worked examples of these stay out of the context: they were deferred to save it.
      return found.length === 0 ? eager : [...eager, ...found.map((tool) => bare(tool as Tool))];
    },
    catalogue: () =>
      tools.map((tool) => ({
        ...bare(tool),
        deferred: tool.deferLoading,
        gated: tool.needsApproval !== false || tool.asks !== undefined,
      })),
  };
}

function freeName({ source, trust, name }: Tool, taken: ReadonlyMap<string, Tool>): string {
  const prefixed = `${source ?? trust}__${name}`.slice(0, maxNameChars);
  for (let number = 1; ; number++) {
    const suffix = number === 1 ? '' : `_${number}`;
    const candidate = prefixed.slice(0, maxNameChars - suffix.length) + suffix;
    if (!taken.has(candidate)) return candidate;
  }
}

function bare({ name, description, parameters }: Tool): Advertisement {
  return { name, description, parameters };
}

function advertise(tool: Tool): Advertisement {
  if (tool.examples.length === 0) return bare(tool);
  const lines = tool.examples.map(
    ({ args, note }) => `- ${JSON.stringify(args)}${note === undefined ? '' : `: ${note}`}`,
  );
  return { ...bare(tool), description: `${tool.description}\n\nExamples:\n${lines.join('\n')}` };
}
