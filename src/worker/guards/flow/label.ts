import { maxLabelChars, type FlowLabel } from '../../../shared/contract/message.ts';
import { decodingsOf } from './decode.ts';
import { composed, formOf, type Form } from './normalise.ts';
import { unvouched, type PassageMemory } from './passages.ts';
import { Needle } from './spans.ts';
import { brings, type Value } from './values.ts';

interface LabelMemory extends PassageMemory {
  vouchesFor(value: Value): boolean;
}

/** More words than these are not asked about one by one: the whole text counts. */
const maxWords = 16_384;

/**
 * The pieces of a text that untrusted texts brought: passages from eight letters and digits on, so that a second hop
 * launders nothing, and every word and number that no trusted text has as well. Undefined: too many, all of it counts.
 */
export function labelledParts(text: string, memory: LabelMemory): FlowLabel['parts'] {
  if (memory.untrusted.length === 0) return [];
  if (memory.untrusted.some(({ tracked }) => tracked.form.cut)) return undefined;
  const { texts, cut } = decodingsOf(text);
  if (cut) return undefined;
  const parts: string[] = [];
  for (const view of [text, ...texts]) {
    const found = partsOf(composed(view), memory);
    if (!found) return undefined;
    parts.push(...found);
  }
  return parts.reduce((sum, part) => sum + part.length, 0) > maxLabelChars ? undefined : parts;
}

function partsOf(text: string, memory: LabelMemory): string[] | undefined {
  const form = formOf(text, 4 * maxLabelChars);
  if (form.cut) return undefined;
  const isPart = new Uint8Array(text.length);
  markPassages(form, text, isPart, memory);
  const words = [...text.matchAll(/[\p{L}\p{N}\p{M}][^\s"<>()[\]{}]*/gu)];
  if (words.length > maxWords) return undefined;
  const known = new Map<string, boolean>();
  for (const { 0: word, index } of words) {
    let isForeign = known.get(word);
    if (isForeign === undefined) known.set(word, (isForeign = isBrought(word, memory)));
    if (isForeign) isPart.fill(1, index, index + word.length);
  }
  return runsOf(text, isPart);
}

function markPassages(form: Form, text: string, isPart: Uint8Array, memory: LabelMemory): void {
  const needle = new Needle(form.units);
  for (const { tracked } of memory.untrusted) {
    const units = tracked.form.units;
    for (const { from, to, end } of unvouched(needle.spansIn(units), units, memory)) {
      isPart.fill(1, form.starts[end - (to - from)] ?? 0, form.starts[end] ?? text.length);
    }
  }
}

function isBrought(word: string, memory: LabelMemory): boolean {
  const value: Value = { text: word.replace(/[.,:;!?]+$/, ''), kind: 'whole' };
  return memory.untrusted.some(({ tracked }) => brings(tracked, value)) && !memory.vouchesFor(value);
}

/** The marked runs of a text; what is not marked between two of them is less than a word. */
function runsOf(text: string, isPart: Uint8Array): string[] {
  const runs: string[] = [];
  let from = -1;
  let to = -1;
  for (let at = 0; at < text.length; at++) {
    if (isPart[at] !== 1) continue;
    const isNear = from !== -1 && !/[\p{L}\p{N}]/u.test(text.slice(to, at));
    if (!isNear) {
      if (from !== -1) runs.push(text.slice(from, to));
      from = at;
    }
    to = at + 1;
  }
  if (from !== -1) runs.push(text.slice(from, to));
  return runs;
}
