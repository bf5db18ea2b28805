import { maxLevels } from '../../../shared/base/json.ts';
import { charactersOf, decodingsOf, type Decoded } from './decode.ts';
import { isDeclared, isListed, placeOf, placeWithin, type Place } from './schema.ts';

/** One value somewhere in the arguments of a call. */
export interface Argument {
  /** With the places in lists: `items.0.iban`. */
  readonly path: string;
  /** Without them, as rules have it. */
  readonly rulePath: string;
  /** The names on the way. */
  readonly names: readonly string[];
  readonly value: string | number | boolean;
  /** The schema lists this value: the author chose it, not the model. */
  readonly isListed: boolean;
  /** It is the name of a field itself. */
  readonly isName: boolean;
}

export interface Arguments {
  readonly all: readonly Argument[];
  /** They are nested deeper, or have more values, than is looked at. */
  readonly cut: boolean;
}

const maxArguments = 8_192;
const minCharacterCodes = 8;

/** Every value of the arguments, and every name in them that the schema does not declare. */
export function argumentsOf(args: unknown, parameters: Readonly<Record<string, unknown>>): Arguments {
  const all: Argument[] = [];
  let cut = false;
  const add = (value: Argument['value'], at: Argument) => all.push({ ...at, value });
  const visit = (value: unknown, at: Argument, place: Place, depth: number): void => {
    if (all.length >= maxArguments) cut = true;
    if (cut) return;
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
      add(value, { ...at, isListed: isListed(place, value) });
      return;
    }
    if (typeof value !== 'object' || value === null) return;
    if (depth >= maxLevels) {
      cut = true;
      return;
    }
    if (Array.isArray(value)) {
      const text = value.length >= minCharacterCodes && value.every(isNumber) ? charactersOf(value) : '';
      if (text !== '') add(text, at);
      for (const [index, item] of value.entries()) {
        visit(item, { ...at, path: under(at.path, String(index)) }, placeWithin(place, index, parameters), depth + 1);
      }
      return;
    }
    for (const [name, item] of Object.entries(value)) {
      if (!isDeclared(place, name)) add(name, { ...at, isName: true });
      visit(item, fieldAt(at, name, isDeclared(place, name)), placeWithin(place, name, parameters), depth + 1);
    }
  };
  visit(args, { path: '', rulePath: '', names: [], value: '', isListed: false, isName: false }, placeOf(parameters), 0);
  return { all, cut };
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}

/** A name that a model made up is no path of several names, and not nothing: no rule about other fields is meant. */
function fieldAt({ path, rulePath, names }: Argument, name: string, isKnown: boolean): Argument {
  const ruleName = isKnown ? name : name.replaceAll('.', '*') || '*';
  return {
    path: under(path, name),
    rulePath: under(rulePath, ruleName),
    names: [...names, name],
    value: '',
    isListed: false,
    isName: false,
  };
}

function under(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

const decoded = new WeakMap<Argument, Decoded>();

/** What the value of an argument stands for once it is decoded. It is decoded once. */
export function decodingsIn(argument: Argument): Decoded {
  let known = decoded.get(argument);
  if (!known) decoded.set(argument, (known = decodingsOf(String(argument.value))));
  return known;
}
