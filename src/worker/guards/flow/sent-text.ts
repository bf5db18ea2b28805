import { canonicalJson, deeperThan, maxLevels } from '../../../shared/base/json.ts';
import type { FlowSource } from '../../../shared/contract/message.ts';
import { argumentsOf, decodingsIn, type Argument } from './arguments.ts';
import { decodingsOf, turned, type Decoded } from './decode.ts';
import { unitsIn } from './normalise.ts';
import { passagesIn, type PassageMemory } from './passages.ts';

interface SentMemory extends PassageMemory {
  readonly sent: readonly { readonly names: readonly string[]; readonly args: unknown; readonly text: string }[];
}

interface PassageFinding {
  readonly rule: 'untrusted-to-sink';
  readonly argument: Argument;
  readonly source: FlowSource;
}

/** The arguments that repeat a passage of an untrusted text, alone, together, or together with calls before. */
export function passageFindings(
  call: { readonly toolName: string; readonly args: unknown },
  free: readonly Argument[],
  memory: SentMemory,
  minUnits: number,
): PassageFinding[] {
  if (memory.untrusted.length === 0 || free.length === 0) return [];
  const sent = sentText(free, callsBefore(call, memory), minUnits);
  const found = new Map<Argument, FlowSource>();
  for (const { source, pieces } of passagesIn(sent, memory, minUnits)) {
    const whole = pieces.filter(({ from, to }) => to - from >= minUnits);
    const longest = pieces.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a));
    for (const { end } of whole.length > 0 ? whole : [longest]) {
      const argument = sent.argumentAt(end - 1);
      if (argument && !found.has(argument)) found.set(argument, source);
    }
  }
  return [...found].map(([argument, source]) => ({ rule: 'untrusted-to-sink', argument, source }));
}

interface Part {
  readonly units: Uint16Array;
  readonly argument: Argument;
  /** An earlier call has sent it: what this call adds nothing to has been decided on then. */
  readonly isBefore?: boolean;
}

/** A call adds to a passage of calls before when it goes on with so many units of it, or with all that it has. */
const minAdded = 4;

/**
 * Everything that the call sends, in all the ways to read it: each value by itself and decoded, each behind what earlier calls
 * of the tool have sent in its place, and all values in a row.
 */
function sentText(free: readonly Argument[], before: readonly (readonly unknown[])[], minUnits: number) {
  const plain = free.map((argument): Part => ({ argument, units: unitsIn(String(argument.value)) }));
  const hidden = (argument: Argument, text: string, decoded: Decoded) =>
    [...decoded.texts, ...turned(text)].map((one): Part => ({ argument, units: unitsIn(one) }));
  const decoded = [
    ...free.flatMap((argument) => hidden(argument, String(argument.value), decodingsIn(argument))),
    ...joinedTexts(free).flatMap(({ text, argument }) => hidden(argument, text, decodingsOf(text))),
  ];
  const parts: readonly Part[][] = [
    ...plain.map((part) => [part]),
    ...decoded.map((part) => [part]),
    ...plain.flatMap((part) =>
      before.flatMap((calls) => {
        const tail = tailOf(calls, part.argument, minUnits - 1);
        return tail ? [[{ argument: part.argument, units: tail, isBefore: true }, part]] : [];
      }),
    ),
    ...rowsOf(plain, minUnits),
  ];
  const ends: { readonly end: number; readonly argument: Argument | undefined }[] = [];
  let at = 0;
  const rows = parts.map((row, place) => {
    for (const { units, argument, isBefore = false } of row) {
      // Another form of an argument is another place: how far pieces are from each other there means nothing.
      const own = place < plain.length ? argument : { ...argument };
      const { length } = units;
      const isBehind = !isBefore && row[0]?.isBefore === true;
      if (isBehind) ends.push({ end: at + Math.min(length, minAdded) - 1, argument: undefined });
      ends.push({ end: (at += length), argument: isBefore ? undefined : own });
    }
    at++;
    return [...row.map(({ units }) => units), nothing];
  });
  return { units: inRow(rows.flat()), argumentAt: (unit: number) => argumentBefore(ends, unit) };
}

/** All values as one text, for what is encoded as a whole and sent in parts. */
function joinedTexts(free: readonly Argument[]) {
  const values = free.filter(({ isName }) => !isName);
  const argument = values.at(-1);
  if (!argument || values.length < 2) return [];
  return ['', ' '].map((between) => ({ argument, text: values.map(({ value }) => String(value)).join(between) }));
}

function argumentBefore(
  ends: readonly { readonly end: number; readonly argument: Argument | undefined }[],
  unit: number,
) {
  let [from, to] = [0, ends.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((ends[middle]?.end ?? 0) > unit) to = middle;
    else from = middle + 1;
  }
  return ends[from]?.argument;
}

/** All values in a row, with the names of fields and without: long ones by their ends, they are searched by themselves. */
function rowsOf(plain: readonly Part[], minUnits: number): Part[][] {
  const ends = plain.flatMap((part): Part[] => {
    const { units } = part;
    if (units.length <= 3 * minUnits) return [part];
    return [{ ...part, units: inRow([units.subarray(0, minUnits), nothing, units.subarray(-minUnits)]) }];
  });
  const values = ends.filter(({ argument }) => !argument.isName);
  const names = ends.filter(({ argument }) => argument.isName);
  return [ends, values, names].filter((row, at) => row.length > 1 && (at === 0 || row.length < ends.length));
}

/** Between units that do not belong together. */
const nothing = Uint16Array.of(0);

function inRow(parts: readonly Uint16Array[]): Uint16Array {
  const all = new Uint16Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const units of parts) {
    all.set(units, at);
    at += units.length;
  }
  return all;
}

/**
 * The arguments of the earlier calls of the tool. The conversation may end with this very call already, or not: a call with the
 * same arguments at the end is left out once.
 */
function callsBefore(
  { toolName, args }: { readonly toolName: string; readonly args: unknown },
  { sent, untrusted }: SentMemory,
): readonly (readonly unknown[])[] {
  const from = Math.min(...untrusted.map(({ sentBefore }) => sentBefore));
  const all = sent
    .slice(from)
    .filter(({ names }) => names.includes(toolName))
    .map((call) => call.args);
  const last = all.findLastIndex((one) => isSame(one, args));
  return last === -1 ? [all] : [all, all.slice(0, last)];
}

function isSame(a: unknown, b: unknown): boolean {
  return !deeperThan(a, maxLevels) && !deeperThan(b, maxLevels) && canonicalJson(a) === canonicalJson(b);
}

/** The last units that calls have sent in the place of this argument. */
function tailOf(calls: readonly unknown[], { path }: Argument, most: number): Uint16Array | undefined {
  const texts: string[] = [];
  let size = 0;
  for (const args of calls.toReversed()) {
    if (size >= most) break;
    const value = argumentsOf(args, {}).all.find((one) => one.path === path)?.value;
    if (value === undefined) continue;
    texts.unshift(String(value));
    size += unitsIn(String(value), most).length;
  }
  return texts.length === 0 ? undefined : unitsIn(texts.join('')).slice(-most);
}
