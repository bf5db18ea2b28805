import { cleanText } from '../../base/text.ts';
import { maxFilename } from '../../contract/files.ts';

/**
 * The last part of a name that a caller gave, with whole characters, without control characters, and at most 255 long: its
 * ending stays. A name of which nothing is left is `file`.
 */
export function cleanFilename(name: string): string {
  const last = cleanText(name).split(/[/\\]/).at(-1) ?? '';
  // eslint-disable-next-line no-control-regex
  const visible = last.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '').trim();
  if (visible === '' || /^\.+$/.test(visible)) return 'file';
  return shortened(visible);
}

function shortened(name: string): string {
  if (name.length <= maxFilename) return name;
  const [ending = ''] = /\.[A-Za-z0-9]{1,16}$/.exec(name) ?? [];
  return name.slice(0, maxFilename - ending.length).toWellFormed() + ending;
}
