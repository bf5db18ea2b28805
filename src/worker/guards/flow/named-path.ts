import type { DataFlowPolicy } from '../../../shared/contract/flow.ts';
import { isDeclared, placeOf, placeWithin, type Place } from './schema.ts';

/**
 * The path of an argument without what a model wrote: names that the schema of the tool does not have become `*`. In a map, a
 * model chooses the names, too, and they can hold as much as a value. Paths for which the author of the agent has a rule stay.
 */
export function namedPath(
  path: string,
  parameters: Readonly<Record<string, unknown>>,
  { tools }: Pick<DataFlowPolicy, 'tools'>,
): string {
  const rulePath = path.replaceAll(/\.\d+(?=\.|$)/g, '');
  if (Object.values(tools).some((tool) => Object.hasOwn(tool.arguments, rulePath))) return path;
  let place = placeOf(parameters);
  return path
    .split('.')
    .map((name) => {
      const isIndex = !isDeclared(place, name) && /^\d{1,9}$/.test(name) && isList(place);
      const isKnown = isIndex || isDeclared(place, name);
      place = placeWithin(place, isIndex ? Number(name) : name, parameters);
      return isKnown ? name : '*';
    })
    .join('.');
}

function isList(place: Place): boolean {
  return place.some(({ type }) => type === 'array');
}
