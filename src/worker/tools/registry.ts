import { RunError } from '../../shared/errors.ts';
import type { Tool } from './tool.ts';

/** A tool as a model is told about it. */
export type Advertisement = Pick<Tool, 'name' | 'description' | 'parameters'>;

/** The tools of one agent. Names match exactly, letter by letter. */
export interface ToolRegistry {
  find(name: string): Tool | undefined;
  advertised(): readonly Advertisement[];
}

/** Throws `validation` naming every name that is given twice. */
export function createToolRegistry(tools: readonly Tool[]): ToolRegistry {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  if (byName.size < tools.length) {
    const names = tools.map((tool) => tool.name);
    const doubles = new Set(names.filter((name, index) => names.indexOf(name) < index));
    throw new RunError('validation', `tools with the same name: ${[...doubles].join(', ')}`);
  }
  const advertised = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
  return { find: (name) => byName.get(name), advertised: () => advertised };
}
