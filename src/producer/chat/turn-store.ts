import { jsonText } from '../../shared/base/json.ts';
import { keyOf, type ChatTurnIdentity } from './hooks.ts';

/** A stored turn, as it is replayed. */
export interface FinishedTurn {
  readonly text: string;
  /** The events of the producer, each as JSON. Absent when they were too large to keep: then only the text is replayed. */
  readonly lines?: readonly string[] | undefined;
}

/**
 * Where finished turns are found again. `get` throwing fails the turn, because it is unknown then whether it would be
 * answered a second time; `put` throwing is logged.
 */
export interface ChatTurnStore {
  get(identity: ChatTurnIdentity): Promise<FinishedTurn | undefined>;
  put(identity: ChatTurnIdentity, turn: FinishedTurn): Promise<void>;
}

export interface InMemoryChatTurnsOptions {
  /** Default 1,000. The one that was used longest ago goes first. */
  readonly maxTurns?: number;
  /** Of all turns together, default 16 MiB. */
  readonly maxBytes?: number;
}

/** Finished turns, in memory. */
export function createInMemoryChatTurns({
  maxTurns = 1_000,
  maxBytes = 16 * 1024 * 1024,
}: InMemoryChatTurnsOptions = {}): ChatTurnStore {
  const turns = new Map<string, string>();
  let bytes = 0;

  function forget(key: string): void {
    bytes -= sizeOf(turns.get(key) ?? '');
    turns.delete(key);
  }

  return {
    async get(identity) {
      const key = keyOf(identity);
      const json = turns.get(key);
      if (json === undefined) return undefined;
      turns.delete(key);
      turns.set(key, json);
      return JSON.parse(json) as FinishedTurn;
    },
    async put(identity, { text, lines }) {
      const key = keyOf(identity);
      const whole = jsonText({ text, lines });
      const json = sizeOf(whole) > maxBytes ? jsonText({ text }) : whole;
      forget(key);
      if (sizeOf(json) > maxBytes) return;
      turns.set(key, json);
      bytes += sizeOf(json);
      for (const oldest of turns.keys()) {
        if (turns.size <= maxTurns && bytes <= maxBytes) break;
        forget(oldest);
      }
    },
  };
}

/** Two bytes a character at most. */
function sizeOf(text: string): number {
  return text.length * 2;
}
