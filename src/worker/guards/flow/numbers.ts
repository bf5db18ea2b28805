const grouped = /(?<!\d)\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?(?!\d)/g;
const single = /\d(?:[\d.,'’_]*\d)?/g;
/** Longer ones are no amounts, but identifiers. */
const maxChars = 40;

/** Every number of a text, in each way to read it: `1,250` may be a thousand or a little more than one. */
export function numbersIn(text: string): string[] {
  return [...(text.match(single) ?? []), ...(text.match(grouped) ?? [])].flatMap(readings);
}

const amount = /^[\s\p{Sc}]*[+-]?[\s\p{Sc}]*(\d(?:[\d.,'’_ \u00a0\u202f]*\d)?)\s*(?:\p{Sc}|\p{L}{3,10}|%|,-)?\s*$/u;
const power = /^\d{1,12}(?:\.\d{1,12})?e\+?\d{1,2}$/i;

/** The readings of a value that is one number, maybe with a currency. Empty: it is none. */
export function readingsOf(value: string): string[] {
  if (value.length > maxChars) return [];
  if (power.test(value.trim())) return readings(String(Number(value)));
  const number = amount.exec(value.replace(/^[A-Za-z]{3}\s?(?=\d)/, ''))?.[1];
  return number === undefined ? [] : readings(number);
}

const groups = /^\d{1,3}(?:[.'’_]\d{3}|,\d{2,3})+$/;

/** Without separators, zeros before and behind. Nothing for what is grouped like no number: an address, a version. */
function readings(number: string): string[] {
  if (number.length > maxChars) return [];
  const bare = number.replaceAll(/[^\d.,]/g, '');
  const separators = bare.match(/[.,]/g) ?? [];
  const last = separators.at(-1);
  if (last === undefined) return [canonical(bare, '')];
  const at = bare.lastIndexOf(last);
  const before = bare.slice(0, at);
  const decimal = canonical(before, bare.slice(at + 1));
  const isWhole = groups.test(bare);
  if (new Set(separators).size > 1) return groups.test(before) ? [decimal] : [];
  if (separators.length > 1) return isWhole ? [canonical(bare, '')] : [];
  return isWhole ? [canonical(bare, ''), decimal] : [decimal];
}

function canonical(whole: string, fraction: string): string {
  const units = whole.replaceAll(/\D/g, '').replace(/^0+(?=\d)/, '');
  const rest = fraction.replace(/0+$/, '');
  return rest === '' ? units : `${units}.${rest}`;
}
