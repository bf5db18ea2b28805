/** Tags (a second, invisible alphabet) and the selectors that bytes are hidden in. */
const tags = /[\u{E0000}-\u{E007F}]|[\u{E0100}-\u{E01EF}]/u;
/** Turns the order of characters around, so that people read something else than the model. */
const bidiOverride = /[\u202D\u202E]/;
/** Something invisible within a word of Latin, Greek or Cyrillic letters, which need none. */
const withinWord =
  /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}][\u200B-\u200D\u2060-\u2064\uFEFF]{1,64}[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]/u;

/** What is hidden in a text and has no place in an honest one. A flag of England is the price. */
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
