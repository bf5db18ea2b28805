/** One line of a file, numbered from 1, without its end. */
export type TextLine =
  | { readonly number: number; readonly text: string }
  | { readonly number: number; readonly tooLong: true };

const newline = 0x0a;

/**
 * Splits bytes into lines. Keeps at most one line of `maxBytes`: of a longer one only the number. The last line
 * need not end with a newline; an empty rest after the last newline is no line.
 */
export async function* textLines(chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<TextLine> {
  let parts: Buffer[] = [];
  let bytes = 0;
  let number = 1;
  const add = (part: Buffer) => {
    bytes += part.length;
    if (bytes <= maxBytes) parts.push(part);
    else parts = [];
  };
  const take = (): TextLine => {
    const line = bytes > maxBytes ? ({ number, tooLong: true } as const) : { number, text: textOf(parts, number) };
    parts = [];
    bytes = 0;
    number += 1;
    return line;
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    if (start < chunk.length) add(chunk.subarray(start));
  }
  if (bytes > 0) yield take();
}

function textOf(parts: readonly Buffer[], number: number): string {
  const text = Buffer.concat(parts).toString('utf8').replace(/\r$/, '');
  return number === 1 ? text.replace(/^\uFEFF/, '') : text;
}
