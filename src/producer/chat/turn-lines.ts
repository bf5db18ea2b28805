import { orLate } from '../../shared/base/deadline.ts';
import { RunError } from '../../shared/base/errors.ts';
import { jsonText } from '../../shared/base/json.ts';
import type { ChatEvent } from './hooks.ts';

interface Line {
  readonly json: string;
  /** Ours, around the events of the producer. */
  readonly isEnvelope: boolean;
}

/** One body that is being read. */
interface Reader {
  next: number;
  movedAt: number;
  left: boolean;
}

export interface TurnLinesOptions {
  /** Lines that may be ahead of a reader. Default 64. */
  readonly ahead?: number;
  /** Longest wait for a reader that takes nothing. Default 30,000. */
  readonly stallMs?: number;
  /** What is kept for those who come later, in characters. Default 4 MiB. */
  readonly maxChars?: number;
}

const encoder = new TextEncoder();

/**
 * The lines of one turn: written once, read by any number of bodies, each from the first line on and at its own pace.
 * The writer waits for the slowest of them, but not for one that left, nor for long for one that takes nothing.
 */
export class TurnLines {
  readonly #ahead: number;
  readonly #stallMs: number;
  readonly #maxChars: number;
  readonly #waitedFor = new Set<Reader>();
  #lines: Line[] = [];
  /** Number of the first line that is still here. */
  #first = 0;
  #chars = 0;
  #ended = false;
  #changed = Promise.withResolvers<void>();

  constructor({ ahead = 64, stallMs = 30_000, maxChars = 4 * 1024 * 1024 }: TurnLinesOptions = {}) {
    this.#ahead = ahead;
    this.#stallMs = stallMs;
    this.#maxChars = maxChars;
  }

  /** All lines are here: a reader that joins now misses nothing. */
  get isWhole(): boolean {
    return this.#first === 0;
  }

  /** The events of the producer, each as JSON; undefined when it was too much. */
  get events(): readonly string[] | undefined {
    return this.isWhole ? this.#lines.filter(({ isEnvelope }) => !isEnvelope).map(({ json }) => json) : undefined;
  }

  /** Adds a line. Throws `validation` for what is no event. */
  add(event: ChatEvent, { isEnvelope = false } = {}): void {
    this.addJson(jsonOf(event), { isEnvelope });
  }

  addJson(json: string, { isEnvelope = false } = {}): void {
    this.#lines.push({ json, isEnvelope });
    this.#chars += json.length;
    this.#ring();
  }

  /** Resolves when the readers have taken enough. */
  async room(): Promise<void> {
    for (const reader of this.#waitedFor) await this.#caughtUp(reader);
    this.#dropSurplus();
  }

  end(): void {
    this.#ended = true;
    this.#ring();
  }

  /** Everything from the first line on. `replayed`: the envelope marks that nothing was produced for this reader. */
  body(isReplayed = () => false): ReadableStream<Uint8Array> {
    const reader: Reader = { next: 0, movedAt: performance.now(), left: false };
    this.#waitedFor.add(reader);
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const line = await this.#take(reader);
          if (reader.left) return;
          if (line) controller.enqueue(encoder.encode(`${textOf(line, isReplayed())}\n`));
          else controller.close();
        },
        cancel: () => {
          reader.left = true;
          this.#waitedFor.delete(reader);
          this.#ring();
        },
      },
      { highWaterMark: 0 },
    );
  }

  /** The next line; undefined at the end, and for a reader that was too slow and whose next line is gone. */
  async #take(reader: Reader): Promise<Line | undefined> {
    for (;;) {
      if (reader.left || reader.next < this.#first) return undefined;
      const line = this.#lines[reader.next - this.#first];
      if (line) {
        reader.next += 1;
        reader.movedAt = performance.now();
        this.#ring();
        return line;
      }
      if (this.#ended) return undefined;
      await this.#changed.promise;
    }
  }

  async #caughtUp(reader: Reader): Promise<void> {
    while (this.#waitedFor.has(reader) && this.#first + this.#lines.length - reader.next > this.#ahead) {
      const leftMs = reader.movedAt + this.#stallMs - performance.now();
      if (leftMs > 0) await this.#changedWithin(leftMs);
      else this.#waitedFor.delete(reader);
    }
  }

  async #changedWithin(ms: number): Promise<void> {
    await orLate(ms, this.#changed.promise, () => {});
  }

  /** Over the limit, only the lines stay that a reader who is waited for has not read. */
  #dropSurplus(): void {
    if (this.#chars <= this.#maxChars) return;
    const end = this.#first + this.#lines.length;
    const oldest = Math.min(end, ...[...this.#waitedFor].map(({ next }) => next));
    const dropped = this.#lines.splice(0, oldest - this.#first);
    this.#first = oldest;
    this.#chars -= dropped.reduce((sum, { json }) => sum + json.length, 0);
  }

  #ring(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    resolve();
  }
}

function jsonOf(event: ChatEvent): string {
  const isEvent = event !== null && typeof event === 'object' && typeof event.type === 'string';
  if (!isEvent) throw new RunError('validation', 'the producer of a chat turn emitted something that is no event');
  try {
    return jsonText(event);
  } catch (cause) {
    throw new RunError('validation', `the producer emitted a ${event.type} that is not JSON`, { cause });
  }
}

function textOf({ json, isEnvelope }: Line, replayed: boolean): string {
  if (!isEnvelope || !replayed) return json;
  const { type, data } = JSON.parse(json) as ChatEvent;
  return jsonText({ type, data: { ...(data as object), replayed } });
}
