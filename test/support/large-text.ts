/** The same text for the same size, in bytes: lines of words in several scripts, no two alike. */
export function largeText(bytes: number): string {
  const lines: string[] = [];
  for (let [size, line] = [0, 0]; size < bytes; line++) {
    const text = `${line}: größer, 大きい, больше, ${(line * 7_919) % 104_729}\n`;
    lines.push(text);
    size += Buffer.byteLength(text);
  }
  return lines.join('');
}
