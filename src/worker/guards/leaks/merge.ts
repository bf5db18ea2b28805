import { sha256 } from '../../../shared/base/ids.ts';
import type { TrustClass } from '../../../shared/contract/agent/trust.ts';
import type { LeakFinding, LeakStrictness } from '../../../shared/contract/agent/lateral-leak.ts';
import { decisionOf } from './causality.ts';

/** How far the way is trusted by which a text of each class comes here: within this fleet, over TLS, or through a foreign skill. */
const transports: Readonly<Record<TrustClass, number>> = {
  'built-in': 0.9,
  'user-defined': 0.9,
  'trusted-skill': 0.9,
  external: 0.9,
  'untrusted-skill': 0.3,
  'mcp-derived': 0.7,
  'web-search': 0.7,
};

/** How far what made the text is trusted. */
const origins: Readonly<Record<TrustClass, number>> = {
  'built-in': 1,
  'user-defined': 0.9,
  'trusted-skill': 0.85,
  external: 0.5,
  'untrusted-skill': 0.4,
  'mcp-derived': 0.7,
  'web-search': 0.5,
};

/** For each thing that was denied to a child; no more than five of them count. */
const perDenial = 0.9;
const maxCounted = 5;

/** Below this a child is of little trust. */
const trustFloor = 0.5;
/** What such a child may have of a merged text. */
const shareCeiling = 0.3;

/** How far a child is trusted, from 0 to 1: as far as the least trusted text that it has read, and less for what it was denied. */
export function childTrust(read: readonly TrustClass[], denials: number): number {
  const classes: readonly TrustClass[] = ['user-defined', ...read];
  const least = Math.min(...classes.map((one) => transports[one] * origins[one]));
  return least * perDenial ** Math.min(denials, maxCounted);
}

/** A child of a fan-out, as a judge has read it. */
export interface JudgedChild {
  readonly output: string;
  readonly trust: number;
}

/** The letters and digits of a passage: what two texts have in common must be so long to count. */
const shingleChars = 12;

/** Letters and digits, without case and forms of writing. */
function plain(text: string): string {
  return text
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/**
 * The share of each child in the merged text, from 0 to 1: of all passages of 12 letters and digits in it, those that the answer
 * of the child has, too. One that several answers have counts for the most trusted of them, for each of these where they are
 * several: what a more trusted child says as well is not brought by another one.
 */
export function sharesOf(merged: string, children: readonly JudgedChild[]): readonly number[] {
  const text = plain(merged);
  if (text === '') return children.map(() => 0);
  const length = Math.min(shingleChars, text.length);
  const places = new Map<string, number>();
  for (const passage of passages(text, length)) places.set(passage, (places.get(passage) ?? 0) + 1);
  const total = text.length - length + 1;
  const owners = new Map<string, { readonly trust: number; readonly children: number[] }>();
  for (const [index, { output, trust }] of children.entries()) {
    for (const passage of new Set(passages(plain(output), length))) {
      if (!places.has(passage)) continue;
      const known = owners.get(passage);
      if (!known || known.trust < trust) owners.set(passage, { trust, children: [index] });
      else if (known.trust === trust) known.children.push(index);
    }
  }
  const counts = children.map(() => 0);
  for (const [passage, { children: of }] of owners)
    for (const index of of) counts[index] = (counts[index] ?? 0) + (places.get(passage) ?? 0);
  return counts.map((count) => count / total);
}

function* passages(text: string, length: number): Generator<string> {
  for (let at = 0; at + length <= text.length; at++) yield text.slice(at, at + length);
}

/** What was found in a merged text. `biased`: the children of little trust that make up too much of it, by their place. */
export interface MergeFinding {
  readonly shares: readonly number[];
  readonly biased: readonly number[];
  readonly leak?: LeakFinding;
}

/** Looks at what a judge made of the answers of several children. */
export function checkMerge(
  merged: string,
  children: readonly JudgedChild[],
  strictness: Exclude<LeakStrictness, 'off'>,
): MergeFinding {
  const shares = sharesOf(merged, children);
  const biased = children.flatMap(({ trust }, index) =>
    trust < trustFloor && (shares[index] ?? 0) > shareCeiling ? [index] : [],
  );
  if (biased.length === 0) return { shares, biased };
  const most = Math.max(...biased.map((index) => shares[index] ?? 0));
  const about = { severity: most > 0.5 ? 'high' : 'medium', decision: decisionOf(strictness) } as const;
  const leak = {
    vector: 'merge',
    ...about,
    contentSha256: sha256(merged),
  } as const;
  return { shares, biased, leak };
}
