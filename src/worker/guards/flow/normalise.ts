import { fold } from '../folded-text.ts';

const noLetterOrDigit = /[^\p{L}\p{N}]+/gu;

/** One form for all the ways to write a text: lower case, look-alike letters as one, letters and digits only. */
export function normalise(text: string): string {
  return fold(text.normalize('NFKC')).text.replaceAll(noLetterOrDigit, '');
}
