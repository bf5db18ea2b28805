import { canonicalJson, deeperThan, maxLevels } from '../../../shared/base/json.ts';
import type { FlowSource } from '../../../shared/contract/message.ts';
import { argumentsOf, type Argument } from './arguments.ts';
import { decodingsOf, turned } from './decode.ts';
import { formOf, joined, type Form } from './normalise.ts';
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
  readonly form: Form;
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
  const plain = free.map((argument): Part => ({ argument, form: formOf(String(argument.value)) }));
  const hidden = (text: string, argument: Argument) =>
    [...decodingsOf(text).texts, ...turned(text)].map((one): Part => ({ argument, form: formOf(one) }));
  const decoded = [
    ...free.flatMap((argument) => hidden(String(argument.value), argument)),
    ...joinedTexts(free).flatMap(({ text, argument }) => hidden(text, argument)),
  ];
  const parts: readonly Part[][] = [
    ...plain.map((part) => [part]),
    ...decoded.map((part) => [part]),
    ...plain.flatMap((part) =>
      before.flatMap((calls) => {
        const tail = tailOf(calls, part.argument, minUnits - 1);
        return tail ? [[{ argument: part.argument, form: tail, isBefore: true }, part]] : [];
      }),
    ),
    ...rowsOf(plain, minUnits),
  ];
  const ends: { readonly end: number; readonly argument: Argument | undefined }[] = [];
  let at = 0;
  const rows = parts.map((row, place) => {
    for (const { form, argument, isBefore = false } of row) {
      // Another form of an argument is another place: how far pieces are from each other there means nothing.
      const own = place < plain.length ? argument : { ...argument };
      const { length } = form.units;
      const isBehind = !isBefore && row[0]?.isBefore === true;
      if (isBehind) ends.push({ end: at + Math.min(length, minAdded) - 1, argument: undefined });
      ends.push({ end: (at += length), argument: isBefore ? undefined : own });
    }
    at++;
    return inRow(row);
  });
  return { units: joined(rows).units, argumentAt: (unit: number) => argumentBefore(ends, unit) };
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
    const { units } = part.form;
    if (units.length <= 3 * minUnits) return [part];
    const gap = Uint16Array.of(...units.slice(0, minUnits), 0, ...units.slice(-minUnits));
    return [{ ...part, form: formWith(gap) }];
  });
  const values = ends.filter(({ argument }) => !argument.isName);
  const names = ends.filter(({ argument }) => argument.isName);
  return [ends, values, names].filter((row, at) => row.length > 1 && (at === 0 || row.length < ends.length));
}

function inRow(row: readonly Part[]): Form {
  const [first] = row;
  if (row.length === 1 && first) return first.form;
  const units = new Uint16Array(row.reduce((sum, { form }) => sum + form.units.length, 0));
  let at = 0;
  for (const { form } of row) {
    units.set(form.units, at);
    at += form.units.length;
  }
  return formWith(units);
}

function formWith(units: Uint16Array): Form {
  return { units, edges: new Uint8Array(units.length + 1), starts: new Uint32Array(units.length), cut: false };
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
function tailOf(calls: readonly unknown[], { path }: Argument, most: number): Form | undefined {
  const texts: string[] = [];
  let size = 0;
  for (const args of calls.toReversed()) {
    if (size >= most) break;
    const value = argumentsOf(args, {}).all.find((one) => one.path === path)?.value;
    if (value === undefined) continue;
    texts.unshift(String(value));
    size += formOf(String(value), most).units.length;
  }
  if (texts.length === 0) return undefined;
  const { units, edges, starts, cut } = formOf(texts.join(''));
  return { units: units.slice(-most), edges: edges.slice(-most - 1), starts: starts.slice(-most), cut };
}
