/** No tool result is larger than this, whatever the tool's own bound. */
export const maxResultBytes = 50 * 1024;

const bytesPerToken = 4;
const headShare = 0.7;

/**
 * The text within a tool's bound: the beginning and the end with a marker between them that says how much is missing.
 * Cuts only between characters. A bound of 0 tokens leaves the hard ceiling alone.
 */
export function boundText(text: string, maxTokens: number): string {
  const maxBytes = maxTokens === 0 ? maxResultBytes : Math.min(maxTokens * bytesPerToken, maxResultBytes);
  const whole = text.toWellFormed();
  // A character has at least one byte, so most texts need no counting of bytes.
  if (whole.length * 3 <= maxBytes) return whole;
  const size = Buffer.byteLength(whole);
  if (size <= maxBytes) return whole;
  const marker = `\n[… ${size} bytes in all, the middle was cut …]\n`;
  const room = Math.max(0, maxBytes - Buffer.byteLength(marker));
  const headBytes = Math.floor(room * headShare);
  return firstBytes(whole, headBytes) + marker + lastBytes(whole, room - headBytes);
}

/** At most `maxChars` UTF-16 units from the beginning, without half a character at the end. */
export function clip(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const last = text.charCodeAt(maxChars - 1);
  const splitsPair = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splitsPair ? maxChars - 1 : maxChars);
}

function firstBytes(text: string, bytes: number): string {
  const buffer = Buffer.from(clip(text, bytes));
  let end = Math.min(bytes, buffer.length);
  while (end > 0 && end < buffer.length && isContinuation(buffer[end])) end--;
  return buffer.toString('utf8', 0, end);
}

function lastBytes(text: string, bytes: number): string {
  if (bytes === 0) return '';
  const buffer = Buffer.from(text.slice(-bytes).toWellFormed());
  let start = Math.max(0, buffer.length - bytes);
  while (start < buffer.length && isContinuation(buffer[start])) start++;
  return buffer.toString('utf8', start);
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
