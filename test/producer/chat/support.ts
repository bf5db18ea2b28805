import type { ChatEvent, ChatTurnHooks, ChatTurnIdentity } from '../../../src/producer/index.ts';

export const identity: ChatTurnIdentity = { tenantId: 'shop', sessionId: 's-1', userId: 'kim', turnIndex: 3 };

/** A line of a body. Throws for what is no JSON, blank lines included. */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into data of many shapes
export type Line = { readonly type: string; readonly data?: any; readonly seq?: number | undefined };

/** Reads lines one by one. The body is taken at once, so that its response may go; leaving the loop cancels it. */
export function linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Line, void, void> {
  return splitLines(body.pipeThrough(new TextDecoderStream()));
}

async function* splitLines(text: ReadableStream<string>): AsyncGenerator<Line, void, void> {
  let rest = '';
  for await (const chunk of text) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line) as Line;
  }
  if (rest !== '') throw new Error(`the last line has no end: ${rest}`);
}

export async function readAll(body: ReadableStream<Uint8Array>): Promise<Line[]> {
  return await Array.fromAsync(linesOf(body));
}

export function typesOf(lines: readonly { readonly type: string }[]): string[] {
  return lines.map(({ type }) => type);
}

export const words: readonly ChatEvent[] = ['It ', 'was ', 'sent.'].map((text) => ({ type: 'word', data: { text } }));

export async function* streamOf(events: readonly ChatEvent[]): AsyncGenerator<ChatEvent, void, void> {
  yield* events;
}

/** Hooks that answer, and what was called, in order. */
export function hooks(changes: Partial<ChatTurnHooks> = {}) {
  const calls: string[] = [];
  const stored: string[] = [];
  const all = {
    produce: () => {
      calls.push('produce');
      return { stream: streamOf(words), finalText: () => 'It was sent.' };
    },
    persistAssistantMessage: ({ finalText }: { readonly finalText: string }) => {
      calls.push('persist');
      stored.push(finalText);
    },
    onTurnComplete: () => void calls.push('complete'),
    ...changes,
  };
  return { hooks: all, calls, stored };
}

/** A turn as short as it can be. */
export const asked = { agent: 'support', message: 'Where is order 7?', sessionId: 's-1', turnIndex: 3 };

/** What a client shows: deltas in order, without parts that were to be forgotten. */
export function shownText(lines: readonly Line[]): string {
  const parts = new Map<string, string>();
  for (const { type, data } of lines) {
    if (type !== 'message.part.updated') continue;
    const { delta, part } = data;
    parts.set(part.id, delta === undefined ? part.text : (parts.get(part.id) ?? '') + delta);
  }
  return [...parts.values()].join('');
}
