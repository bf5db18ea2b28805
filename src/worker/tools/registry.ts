import { jsonText } from '../../shared/base/json.ts';
import type { StepCall } from '../../shared/contract/journal/turn-state.ts';
import { qualifiedNames } from './names.ts';
import type { CatalogueEntry, Tool } from './tool.ts';

/** A tool as a model sees it. */
export type Advertisement = Pick<Tool, 'name' | 'description' | 'parameters'>;

/** The tools of one agent. Names match exactly, letter by letter. */
export interface ToolRegistry {
  /** Also tools that the model does not see yet. */
  find(name: string): Tool | undefined;
  /** The tool that a call means: of that server, whatever its name is by now, or code of the worker. */
  meant(call: Pick<StepCall, 'name' | 'source'>): Tool | undefined;
  /** Those that a model sees at once. */
  listEager(): readonly Advertisement[];
  /** Those that it has to look for. */
  listDeferred(): readonly Advertisement[];
  /** What a model sees that has found these, in this order: a stable beginning, so that providers can cache it. */
  advertised(promoted: readonly string[]): readonly Advertisement[];
  catalogue(): readonly CatalogueEntry[];
}

/** The tools have a name of their own each. The model sees those that `advertises` takes, as far as they are not deferred, and about those that it has found. */
export function createToolRegistry(
  tools: readonly Tool[],
  advertises: (tool: Tool) => boolean = () => true,
): ToolRegistry {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const shown = tools.filter(({ unaccepted }) => unaccepted !== 'withheld');
  const eager = shown.filter((tool) => !tool.deferLoading && advertises(tool)).map(advertise);
  const deferred = shown.filter((tool) => tool.deferLoading);
  return {
    find: (name) => byName.get(name),
    meant({ name, source: wanted }) {
      if (typeof wanted === 'string') return tools.find(({ source }) => source && qualifiedNames(source)[0] === wanted);
      const tool = byName.get(name);
      return wanted === null && tool?.source ? undefined : tool;
    },
    listEager: () => eager,
    listDeferred: () => deferred.map(advertise),
    advertised: (promoted) => {
      const found = promoted
        .map((name) => byName.get(name))
        .filter((tool) => tool && tool.unaccepted !== 'withheld' && (tool.deferLoading || !advertises(tool)));
      // Worked examples of these stay out of the context: they were deferred to save it.
      return found.length === 0 ? eager : [...eager, ...found.map((tool) => bare(tool as Tool))];
    },
    catalogue: () =>
      shown.map((tool) => ({
        ...bare(tool),
        deferred: tool.deferLoading,
        trust: tool.source ? tool.trust : 'built-in',
        gated: isGated(tool),
      })),
  };
}

/** May a call of this tool have to wait for a person, so that no script makes it? */
export function isGated({ needsApproval, asks, unaccepted }: Tool): boolean {
  return needsApproval !== false || asks !== undefined || unaccepted === 'asked';
}

function bare({ name, description, parameters }: Tool): Advertisement {
  return { name, description, parameters };
}

function advertise(tool: Tool): Advertisement {
  if (tool.examples.length === 0) return bare(tool);
  const lines = tool.examples.map(({ args, note }) => `- ${jsonText(args)}${note === undefined ? '' : `: ${note}`}`);
  return { ...bare(tool), description: `${tool.description}\n\nExamples:\n${lines.join('\n')}` };
}
