/** Values of callers, models and tools are refused, or cut off, below this many levels. */
export const maxLevels = 64;

/** Is this JSON text nested deeper than `max` levels? One pass, without parsing; brackets inside strings do not count. */
export function depthOver(text: string, max: number): boolean {
  if (text.length <= max) return false;
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (inString) {
      if (unit === backslash) i++;
      else if (unit === quote) inString = false;
    } else if (unit === quote) inString = true;
    else if (unit === openBrace || unit === openBracket) {
      depth++;
      if (depth > max) return true;
    } else if (unit === closeBrace || unit === closeBracket) depth--;
  }
  return false;
}

/** Is this value nested deeper than `levels`? Looks no further than that, so that a cycle ends it, too. */
export function deeperThan(value: unknown, levels: number): boolean {
  if (value === null || typeof value !== 'object') return false;
  if (levels === 0) return true;
  return Object.values(value).some((item) => deeperThan(item, levels - 1));
}

const quote = 34;
const openBracket = 91;
const backslash = 92;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;
