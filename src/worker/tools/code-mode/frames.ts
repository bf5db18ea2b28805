const headerBytes = 4;

/** A message as it travels: its length in four bytes, then its UTF-8 text. */
export function frameOf(text: string): Buffer {
  const body = Buffer.from(text);
  const frame = Buffer.allocUnsafe(headerBytes + body.length);
  frame.writeUInt32LE(body.length);
  frame.set(body, headerBytes);
  return frame;
}

/**
 * Cuts a byte stream back into messages. The length is checked before any of the message is kept, so that a peer cannot
 * make this side keep more than `maxBytes`.
 */
export class FrameReader {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #pendingBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The texts that are complete with this chunk. Throws for a message over the bound; nothing more can be read then. */
  push(chunk: Buffer): string[] {
    this.#chunks.push(chunk);
    this.#pendingBytes += chunk.length;
    const texts: string[] = [];
    for (;;) {
      if (this.#pendingBytes < headerBytes) return texts;
      const size = this.#head().readUInt32LE();
      if (size > this.#maxBytes) throw new Error(`a message of ${size} bytes is over ${this.#maxBytes}`);
      if (this.#pendingBytes < headerBytes + size) return texts;
      const whole = this.#chunks.length === 1 ? this.#head() : Buffer.concat(this.#chunks);
      texts.push(whole.toString('utf8', headerBytes, headerBytes + size));
      const rest = whole.subarray(headerBytes + size);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#pendingBytes = rest.length;
    }
  }

  /** The first chunk, with at least the header in it. */
  #head(): Buffer {
    const [first] = this.#chunks;
    if (first && first.length >= headerBytes) return first;
    const joined = Buffer.concat(this.#chunks);
    this.#chunks = [joined];
    return joined;
  }
}
