/** A text as patterns see it, and where each of its characters stands in the original. */
export interface Folded {
  readonly text: string;
  /** Where character `index` of `text` begins in the original; its length stands for the end. */
  readonly originalAt: (index: number) => number;
}

/** Letters of other scripts that look like Latin ones, and signs that look like others: each with what it counts as. */
const lookAlikes: ReadonlyMap<string, string> = new Map(
  [
    'аa вb сc ԁd еe һh нh іi ӏl јj кk мm оo рp ԛq гr ѕs тt уy ѵv ԝw хx αa βb ϲc εe ηn ιi κk νv οo ρp τt',
    'υu χx ωw ıi ɡg ɑa ɩi ʟl ɴn ʀr ꜱs ᴀa ᴄc ᴅd ᴇe ɢg ʜh ɪi ᴊj ᴋk ᴍm ᴏo ᴘp ᴛt ᴜu ᴠv ᴡw ʏy ᴢz օo ոn սu հh',
    'ցg ßss øo łl đd æae œoe ‹< ›> «<< »>> ≪<< ≫>> ⟨< ⟩> ❮< ❯> ❬< ❭> ⟪<< ⟫>> 《<< 》>> ˂< ˃> ᐀= ᐸ< ᐳ> ‐- ‒-',
    '–- —- −- ＿_',
    `’' ‘' “" ”"`,
  ].flatMap((line) => line.split(' ').map((pair): [string, string] => [pair.charAt(0), pair.slice(1)])),
);

/** Invisible: format characters, fillers, variation selectors and tags. */
const invisible = /\p{Cf}|\p{Variation_Selector}|\u034F|\u17B4|\u17B5|[\u115F\u1160\u180E\u2065\u3164\uFFA0]/u;
const maxLetters = 4;
const mark = /\p{Mn}/gu;
const space = /\s/;

/**
 * One form for all the ways in which the same words can be written: lower case, without accents, without invisible characters,
 * look-alikes as the letters that they look like, runs of white space as one space or one line end, and the escapes that
 * JSON puts into texts (`\n`, `\u0061`) as what they stand for. Linear.
 */
export function fold(original: string): Folded {
  const out: string[] = [];
  // A blank before each character, and at most so many letters for one.
  const starts = new Uint32Array(original.length * (maxLetters + 1));
  let length = 0;
  const add = (text: string, from: number) => {
    for (let unit = 0; unit < text.length; unit++) starts[length++] = from;
    out.push(text);
  };
  let at = 0;
  let blank = '';
  let blankFrom = 0;
  while (at < original.length) {
    const { text, units } = nextCharacter(original, at);
    if (isBlank(text)) {
      if (blank === '') blankFrom = at;
      blank = blank === '\n' || text === '\n' || text === '\r' ? '\n' : ' ';
    } else {
      const folded = foldCharacter(text);
      if (folded !== '') {
        if (blank !== '') add(blank, blankFrom);
        blank = '';
        add(folded, at);
      }
    }
    at += units;
  }
  const end = length;
  return { text: out.join(''), originalAt: (index) => (index < end ? (starts[index] ?? 0) : original.length) };
}

function isBlank(character: string): boolean {
  return character.length === 1 && space.test(character);
}

/** The character at a place, and how many units of the original stand for it. */
function nextCharacter(text: string, at: number): { readonly text: string; readonly units: number } {
  const code = text.codePointAt(at) ?? 0;
  if (code !== 0x5c)
    return code > 0xffff ? { text: String.fromCodePoint(code), units: 2 } : { text: text.charAt(at), units: 1 };
  const escape = text.charAt(at + 1);
  if (escape === 'n' || escape === 'r') return { text: '\n', units: 2 };
  if (escape === 't') return { text: ' ', units: 2 };
  if (escape === 'u') {
    const digits = text.slice(at + 2, at + 6);
    if (/^[0-9a-fA-F]{4}$/.test(digits)) return { text: String.fromCharCode(Number.parseInt(digits, 16)), units: 6 };
  }
  return { text: '\\', units: 1 };
}

/** What {@link fold} makes of one character: some letters, or nothing. */
export function foldCharacter(character: string): string {
  const code = character.charCodeAt(0);
  if (character.length === 1 && code < 0x80) return code >= 0x41 && code <= 0x5a ? character.toLowerCase() : character;
  const known = cache.get(character);
  if (known !== undefined) return known;
  const folded = foldRare(character);
  // Bounded by what Unicode has; a text of nothing but new characters must not make it grow for ever.
  if (cache.size < 4_096) cache.set(character, folded);
  return folded;
}

const cache = new Map<string, string>();

function foldRare(character: string): string {
  if (invisible.test(character)) return '';
  const plain = character.normalize('NFKD').replaceAll(mark, '').normalize('NFC').toLowerCase();
  const own = lookAlikes.get(character.toLowerCase());
  const folded = own ?? Array.from(plain, (one) => lookAlikes.get(one) ?? one).join('');
  return folded.length <= maxLetters ? folded : character;
}

/** Tags (a second, invisible alphabet) and the selectors that bytes are hidden in. */
const tags = /[\u{E0000}-\u{E007F}]|[\u{E0100}-\u{E01EF}]/u;
/** Turns the order of characters around, so that people read something else than the model. */
const bidiOverride = /[\u202D\u202E]/;
/** Something invisible within a word of Latin, Greek or Cyrillic letters, which need none. */
const withinWord =
  /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}][\u200B-\u200D\u2060-\u2064\uFEFF]{1,64}[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]/u;

/** Names the kinds of hidden characters in a text. The flags of England, Scotland and Wales are false positives: they are tags. */
export function hiddenFindings(text: string): string[] {
  const patterns = { hidden_text: tags, bidi_override: bidiOverride, zero_width: withinWord };
  return Object.entries(patterns).flatMap(([name, pattern]) => (pattern.test(text) ? [name] : []));
}

const bidi = '\\u061C\\u200E\\u200F\\u202A-\\u202E\\u2066-\\u2069\\u206A-\\u206F';
const zeroWidth =
  '\\u00AD\\u034F\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180E\\u200B\\u2060-\\u2065\\u3164\\uFEFF\\uFFA0\\uFFF9-\\uFFFB';
const removed = new RegExp(`[${bidi}${zeroWidth}\\u{E0000}-\\u{E007F}\\u{E0100}-\\u{E01EF}]`, 'gu');

/** Joiners stay where writing needs them: between letters of scripts that join, and in emoji. */
const joiner =
  /(?<![\p{Script=Arabic}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Oriya}\p{Script=Sinhala}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Khmer}\p{Script=Mongolian}\p{Script=Syriac}\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F])[\u200C\u200D]|[\u200C\u200D](?![\p{Script=Arabic}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Oriya}\p{Script=Sinhala}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Khmer}\p{Script=Mongolian}\p{Script=Syriac}\p{Extended_Pictographic}])/gu;

/** The text without invisible characters: zero-width ones, bidirectional controls, tags. */
export function withoutHidden(text: string): string {
  return text.replaceAll(removed, '').replaceAll(joiner, '');
}
