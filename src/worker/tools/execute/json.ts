import { jsonText } from '../../../shared/base/json-text.ts';

/**
 * The JSON text of whatever a tool's code handed over, or undefined when it stands for nothing (undefined, a function).
 * Big integers become decimal text, binary data a note of its size. Throws for cycles, throwing getters and values
 * beyond what one string can hold.
 */
export function jsonOf(value: unknown): string | undefined {
  return jsonText(isBinary(value) ? noteOf(value) : value, plain);
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
