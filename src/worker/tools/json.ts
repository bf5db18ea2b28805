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

/**
 * The JSON text of whatever a tool's code handed over, or undefined when it stands for nothing (undefined, a function).
 * Big integers become decimal text, binary data a note of its size. Throws for cycles, throwing getters and values
 * beyond what one string can hold.
 */
export function jsonOf(value: unknown): string | undefined {
  return JSON.stringify(isBinary(value) ? noteOf(value) : value, plain);
}

/** Runs before a value's fields are visited, early enough to keep a Buffer from listing its bytes as numbers. */
function plain(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value))
    return value.some(isBinary) ? value.map((item) => (isBinary(item) ? noteOf(item) : item)) : value;
  if (!Object.values(value).some(isBinary)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, isBinary(item) ? noteOf(item) : item]));
}

type Binary = ArrayBuffer | ArrayBufferView;

function isBinary(value: unknown): value is Binary {
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer;
}

function noteOf(value: Binary): string {
  return `[${value.byteLength} bytes of binary data]`;
}
