import type { Folded } from './fold.ts';

export interface Range {
  readonly from: number;
  readonly to: number;
}

/** Single letters with one sign between each two. */
const spelledOut = /(?<![\p{L}\p{N}])(?:[a-z][ .*_-]{1,3}){8,400}[a-z](?![\p{L}\p{N}])/gu;
const spelledWords =
  /(?:ignore|disregard|forget|override|bypass|reveal).{0,32}?(?:instruction|prompt|rules|directive|guideline)/;

/** Orders that are spelled out letter by letter: `i g n o r e …`. Places in the folded text. */
export function spacedInstructions({ text }: Folded): Range[] {
  return [...text.matchAll(spelledOut)].flatMap(({ index, 0: match }) => {
    const letters = match.replaceAll(/[^a-z]/g, '');
    return spelledWords.test(letters) ? [{ from: index, to: index + match.length }] : [];
  });
}

const minEncoded = 32;
const encoded = /(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{32,8192}={0,2}/g;
const maxDecodedChars = 65_536;

/** Base64 of texts that the check finds something in; no more than 64 KB of it is read. Places in the text itself. */
export function encodedInstructions(text: string, speaksToModel: (text: string) => boolean): Range[] {
  if (text.length < minEncoded) return [];
  const found: Range[] = [];
  let left = maxDecodedChars;
  for (const { index, 0: match } of text.matchAll(encoded)) {
    if (left <= 0) break;
    const decoded = Buffer.from(match, 'base64').toString('utf8').slice(0, left);
    if (!isReadable(decoded)) continue;
    left -= decoded.length;
    if (speaksToModel(decoded)) found.push({ from: index, to: index + match.length });
  }
  return found;
}

/** Bytes that are no text decode into something with control characters or without valid UTF-8. */
function isReadable(text: string): boolean {
  // eslint-disable-next-line no-control-regex
  return !/[\u0000-\u0008\u000E-\u001F\uFFFD]/.test(text.slice(0, -1));
}
