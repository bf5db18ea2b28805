import { domainToUnicode } from 'node:url';
import { decodingsIn, type Argument } from './arguments.ts';
import { isSpaceless, plainOf } from './normalise.ts';
import { readingsOf } from './numbers.ts';
import { strictOf, type TrackedText } from './tracked-text.ts';

/** A value of an argument whose origin counts. */
export interface Value {
  readonly text: string;
  /** `host`: of a link. It also counts as brought by a text that names a host above it. */
  readonly kind: 'whole' | 'number' | 'host';
}

/** Longer ones are texts, and found by their passages. */
const maxValueChars = 512;
const minChars = 4;
const minNameChars = 3;
const maxNameChars = 64;
const minInnerChars = 6;
/** A number as long as this is found within a longer one. */
const minPartDigits = 10;

/**
 * The values of an argument that are followed: the whole of it where it is a number or looks like an identifier, or where the
 * argument says who or where; in it, whatever its name: addresses, links, phone and account numbers.
 */
export function valuesOf(argument: Argument, isDestination: boolean): readonly Value[] {
  const { value: given } = argument;
  if (typeof given === 'boolean') return [];
  if (typeof given === 'number')
    return digitsOf(String(given)) >= minChars ? [{ text: String(given), kind: 'number' }] : [];
  const views = [given, ...decodingsIn(argument).texts];
  const values = views.flatMap((view) => [...wholeValues(view, isDestination), ...innerValues(view, isDestination)]);
  return [...new Map(values.map((value) => [`${value.kind} ${value.text}`, value])).values()];
}

function wholeValues(text: string, isDestination: boolean): Value[] {
  const value = text.trim();
  if (value === '' || value.length > maxValueChars) return [];
  const isFollowed = isDestination ? isName(value) : isIdentifier(value);
  const own: Value[] = isFollowed ? [{ text: value, kind: 'whole' }] : [];
  const items = value.split(/[,;|\n]/).filter((item) => item.trim() !== '');
  if (items.length < 2 || readingsOf(value).length > 0) return own;
  return [...own, ...items.flatMap((item) => wholeValues(item, isDestination))];
}

function isName(value: string): boolean {
  const units = plainOf(value);
  return /\p{L}/u.test(value) ? units.length >= minNameChars : units.length >= minChars;
}

const signs = /[\d@/:._#+]/;

/** One word with a digit or a sign in it, or several that are mostly digits. */
function isIdentifier(value: string): boolean {
  const units = plainOf(value);
  if (units.length < minChars) return false;
  if (!/\s/.test(value)) return signs.test(value.replace(/[.,:;!?…]+$/, ''));
  return digitsOf(units) * 3 >= units.length;
}

function digitsOf(text: string): number {
  return text.match(/\p{N}/gu)?.length ?? 0;
}

const mail = /[\p{L}\p{N}._%+-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}[\p{L}\p{N}-]{2,63}/gu;
const link = /[a-z][a-z0-9+.-]{1,31}:\/{1,3}([^\s"'<>\\^`{|}]{1,2000})/gi;
const bareHost =
  /(?<![\p{L}\p{N}@._-])(?:[\p{L}\p{N}_-]{1,63}\.){1,8}([\p{L}]{2,24}|xn--[a-z0-9-]{2,59})(?![\p{L}\p{N}_-])/giu;
const account = /(?<![\p{L}\p{N}])[A-Z]{2}\d{2}[A-Z0-9 -]{11,44}/giu;
const phone = /(?<![\p{L}\p{N}])(?:\+|00)\d[\d ()./-]{6,24}\d(?!\d)/gu;

function innerValues(given: string, isDestination: boolean): Value[] {
  const text = given.replaceAll(/[。｡．]/g, '.');
  // A pattern is looked for only where the signs are that it needs: most texts are spared so.
  const mails = text.includes('@') ? (text.match(mail) ?? []) : [];
  // Readers of links leave out line ends and tabs.
  const links = text.includes('://') ? `${text} ${text.replaceAll(/[\t\r\n]/g, '')}` : text;
  const wholes = [
    ...mails,
    ...(/\d\d/.test(text) ? (text.match(account) ?? []) : []).flatMap(accountNumber),
    ...(/(?:\+|00)\d/.test(text) ? (text.match(phone) ?? []) : []),
    ...(isDestination && text.length <= maxValueChars ? innerIdentifiers(text) : []),
  ];
  const hosts = [
    ...mails.map((address) => address.slice(address.lastIndexOf('@') + 1)),
    ...(links.includes(':/') ? [...links.matchAll(link)] : []).map(([, rest = '']) => addressOf(hostOf(rest))),
    ...(/\.[^\s.]/.test(text) ? [...text.matchAll(bareHost)] : [])
      .filter(([, end = '']) => isDestination || isTopLevel(end))
      .map(([host]) => host),
  ];
  return [
    ...wholes.map((value): Value => ({ text: value, kind: 'whole' })),
    ...hosts.filter((host) => host.includes('.')).map((host): Value => ({ text: hostName(host), kind: 'host' })),
  ];
}

/** Words with digits in a longer destination, the last part of a path, and each word of a name. */
function innerIdentifiers(text: string): string[] {
  const least = text.length <= maxNameChars && !/[/\\]/.test(text) ? minChars : minInnerChars;
  const words = text.split(/[\s,;<>()"'|:=/?&#\\]+/).filter((word) => plainOf(word).length >= least);
  const last = text.split(/[/\\]/).at(-1) ?? '';
  const isPath = last !== text && plainOf(last).length >= minChars;
  const isPersons = text.length <= maxNameChars && /^[\p{L}\s.,'-]+$/u.test(text) && /\s/.test(text.trim());
  const names = isPersons ? text.split(/[\s,]+/) : [];
  return [
    ...words.filter((word) => /\d/.test(word)),
    ...(isPath && signs.test(last) ? [last] : []),
    ...names.filter((name) => plainOf(name).length >= minNameChars),
  ];
}

/** The host of a link without its scheme: what stands before the path, and behind a user's name. */
function hostOf(rest: string): string {
  const authority = /^[^/?#]*/.exec(rest)?.[0] ?? '';
  return authority.slice(authority.lastIndexOf('@') + 1).replace(/:\d*$/, '');
}

/** An address of the net in its usual form: readers of links also take `3405803853` and `0xcb.0.0x71.77` for one. */
function addressOf(host: string): string {
  if (!/^(?:0x[\da-f]{1,8}|\d{1,12})(?:\.(?:0x[\da-f]{1,8}|\d{1,12})){0,3}$/i.test(host)) return host;
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : host;
}

function hostName(host: string): string {
  const lower = host.toLowerCase().replace(/\.+$/, '');
  return lower.includes('xn--') ? domainToUnicode(lower) || lower : lower;
}

const topLevels: ReadonlySet<string> = new Set(
  'com net org info biz io co ai me tv cc app dev xyz top site online shop store club link live pro page cloud tech space fun icu click win loan work today world email news blog wiki gov edu int mil test example invalid local localhost onion de at ch fr it es pt nl be lu dk se no fi is ie uk eu ru ua cz sk hu ro bg gr tr cn jp kr tw hk in pk id my sg th vn au nz us ca mx br ar cl za ng ke eg ir il ae sa su ws to ly gg gl fm st ee lv lt by kz'.split(
    ' ',
  ),
);

/** An end that names a place of the net: a file may have others. */
function isTopLevel(end: string): boolean {
  return topLevels.has(end.toLowerCase()) || end.toLowerCase().startsWith('xn--');
}

/** The account number (IBAN) that a text begins with, up to some end of a word. */
function accountNumber(text: string): string[] {
  const ends = [...text.matchAll(/[A-Z0-9](?![A-Z0-9])/gi)].map(({ index }) => index + 1);
  const end = ends.find((one) => hasCheckDigits(text.slice(0, one)));
  return end === undefined ? [] : [text.slice(0, end)];
}

function hasCheckDigits(text: string): boolean {
  const letters = text.replaceAll(/[ -]/g, '').toUpperCase();
  if (letters.length < 15 || letters.length > 34) return false;
  const turned = letters.slice(4) + letters.slice(0, 4);
  let rest = 0;
  for (const letter of turned)
    for (const digit of String(Number.parseInt(letter, 36))) rest = (rest * 10 + Number(digit)) % 97;
  return rest === 1;
}

/** Does the text name this value, in whatever way it is written? */
export function brings(text: TrackedText, { text: value, kind }: Value): boolean {
  if (text.isOpaque) return true;
  if (kind !== 'host' && hasNumber(text, value)) return true;
  return plainsOf(value).some(
    (plain) => text.hasToken(plain, true) || (isLongNumber(plain) && text.plain.includes(plain)),
  );
}

/** Does the text name just this value? Numbers in any form, account and phone numbers with any spacing, all others exactly. */
export function vouches(text: TrackedText, { text: value, kind }: Value): boolean {
  if (kind === 'host') return vouchesForHost(text, value);
  if (hasNumber(text, value)) return true;
  if (isGroups(value)) return plainsOf(value).some((plain) => text.hasToken(plain, false));
  return spellings(value).some((spelling) => hasExactly(text.strict, spelling));
}

function vouchesForHost(text: TrackedText, host: string): boolean {
  const bare = host.replace(/^www\./, '');
  return [bare, `www.${bare}`].some((one) => hasExactly(text.strict, one));
}

/** The host, and what it is a part of: `a.b.example.com` is a part of `b.example.com` and `example.com`. */
export function hostsAbove(host: string): string[] {
  if (!/\p{L}/u.test(host)) return [host];
  const labels = host.split('.');
  return labels
    .map((_, at) => labels.slice(at))
    .filter((rest, at) => at === 0 || (rest.length >= 2 && rest.join('').length > 6))
    .map((rest) => rest.join('.'));
}

function isLongNumber(plain: string): boolean {
  return plain.length >= minPartDigits && /^\d+$/.test(plain);
}

/** Its letters and digits; those of a phone number with every way to write that a country follows. */
function plainsOf(value: string): string[] {
  const abroad = /^\s*(?:\+|00)(?=[\d\s()./-]{6,}$)/;
  if (!abroad.test(value)) return [plainOf(value)];
  const number = plainOf(value.replace(abroad, ''));
  return [number, `00${number}`];
}

function hasNumber(text: TrackedText, value: string): boolean {
  return readingsOf(value).some((reading) => digitsOf(reading) >= minChars && text.numbers.has(reading));
}

/** Groups of letters and digits, mostly digits: the signs between them mean nothing. */
function isGroups(value: string): boolean {
  if (!/^\s*\+?[\p{L}\p{N}\s()-]+$/u.test(value)) return false;
  return digitsOf(value) * 2 >= plainOf(value).length;
}

function spellings(value: string): string[] {
  const strict = strictOf(value).replace(/^["'<(]+|["'>)]+$/g, '');
  const bare = strict.replace(/^(?:mailto:|tel:|https?:\/\/)/, '').replace(/^www\.(?=.)/, '');
  return [...new Set([strict, bare, `www.${bare}`, strict.replace(/^[#@]/, ''), bare.replace(/[/.]+$/, '')])].filter(
    (one) => one !== '',
  );
}

const word = /[\p{L}\p{N}_]/u;

/** Does the value stand there as a whole, not as a part of another word, address or host? */
function hasExactly(strict: string, value: string): boolean {
  const isDotted = /[.@/:]/.test(value);
  for (let at = strict.indexOf(value); at !== -1; at = strict.indexOf(value, at + 1)) {
    const before = strict.slice(Math.max(0, at - 1), at);
    const behind = strict.slice(at + value.length, at + value.length + 2);
    const goesOn = goesOnWith(behind[0], value.at(-1)) || (isDotted && /^[.\-@+%][\p{L}\p{N}]/u.test(behind));
    if (!goesOn && !goesOnWith(before, value[0]) && !(isDotted && /[.\-+%]/.test(before))) return true;
  }
  return false;
}

/** Does the character beside an end of the value belong to the same word? Scripts without spaces have a word anywhere. */
function goesOnWith(neighbour = '', end = ''): boolean {
  return word.test(neighbour) && !isSpaceless(neighbour) && !isSpaceless(end);
}

const destinations: ReadonlySet<string> = new Set(
  'to cc bcc recipient recipients email emails mail mails phone phones mobile fax sms channel channels user users username usernames account accounts acct iban bic swift routing url urls uri uris link links href host hosts hostname domain domains endpoint webhook callback address addresses path paths file files filename filenames dir directory folder destination destinations dest target targets receiver receivers payee payees beneficiary wallet wallets attendee attendees participant participants invitee invitees member members contact contacts guest guests assignee assignees reviewer reviewers owner owners repo repository remote server ip proxy bucket room group groups team handle forward redirect'.split(
    ' ',
  ),
);

const contents: ReadonlySet<string> = new Set(
  'body text subject title content message description note notes comment summary html markdown data'.split(' '),
);

/** Do the names on the way to a value say to whom, or where? In snake, kebab and camel case. A body has none of its own. */
export function saysDestination(names: readonly string[]): boolean {
  const own = wordsOf(names.at(-1) ?? '');
  if (own.some((word) => destinations.has(word))) return true;
  return (
    !own.some((word) => contents.has(word)) &&
    names.some((name) => wordsOf(name).some((word) => destinations.has(word)))
  );
}

function wordsOf(name: string): string[] {
  return name
    .slice(0, 256)
    .replaceAll(/([\p{Ll}\d])(?=\p{Lu})/gu, '$1_')
    .toLowerCase()
    .split(/[^\p{L}\d]+/u);
}
