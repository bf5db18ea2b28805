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

const quote = 34;
const openBracket = 91;
const backslash = 92;
const closeBracket = 93;
const openBrace = 123;
const closeBrace = 125;
