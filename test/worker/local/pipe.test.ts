import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import type { RunOutcomeView } from '../../../src/shared/contract/run.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { always } from '../../../src/testing/scripts.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { inPieces, pipe, textFrom } from '../../../src/worker/local/pipe.ts';

function agent(id: string, script: ModelScript) {
  return createAgentWith(defineAgent({ id, model: 'any' }), { provider: createScriptedProvider(script), env: {} });
}

/** Events of a run that is read, and how many were asked for and whether it was left. */
function source(...events: readonly Record<string, unknown>[]) {
  const seen = { asked: 0, left: false };
  async function* read(): AsyncGenerator<RunEvent> {
    try {
      for (const event of events) {
        seen.asked++;
        yield event as unknown as RunEvent;
      }
    } finally {
      seen.left = true;
    }
  }
  return { seen, events: read() };
}

const delta = (text: string) => ({ type: 'text.delta', delta: text, model: 'm' });
const completed = { type: 'run.completed' };

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const paragraphs = ['First. ', 'Second. ', 'Third. '].map((word) => word.repeat(10).trim());

test('a reviewer reads the answer of another agent piece by piece', async () => {
  const writer = agent('writer', always(paragraphs.join('\n\n')));
  const reviewer = agent('reviewer', ({ messages }) => {
    const asked = messages.at(-1);
    return { text: `I read: ${asked?.role === 'user' ? asked.content : ''}` };
  });
  const prompt = (piece: string, index: number) => `${index}: ${piece}`;
  const reviews = await all(pipe(writer.stream('Write.'), reviewer, { pieceChars: 80, prompt }));
  expect(reviews.map(({ index, piece }) => [index, piece])).toEqual(paragraphs.map((text, at) => [at, text]));
  expect(reviews.map(({ outcome }) => outcome.text)).toEqual(paragraphs.map((text, at) => `I read: ${at}: ${text}`));
});

test('nothing is read ahead while the reviewer works, or while no piece is asked for', async () => {
  const { seen, events } = source(...Array.from({ length: 50 }, () => delta('x'.repeat(63) + ' ')), completed);
  const askedWhileRunning: number[] = [];
  const reader = {
    async run(): Promise<RunOutcomeView> {
      const before = seen.asked;
      for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
      askedWhileRunning.push(seen.asked - before);
      return { status: 'completed', text: 'ok' } as RunOutcomeView;
    },
  };
  const piped = pipe(events, reader, { pieceChars: 64 });
  expect(seen.asked).toBe(0);
  await piped.next();
  expect([seen.asked, askedWhileRunning]).toEqual([2, [0]]);
  await piped.next();
  expect([seen.asked, askedWhileRunning]).toEqual([3, [0, 0]]);
  await piped.return();
  expect([seen.asked, seen.left]).toEqual([3, true]);
});

test('a cancelled pipe stops the reviewer and releases what it reads', async () => {
  const stop = new AbortController();
  const { seen, events } = source(delta('one'), completed);
  const reader = {
    async run(_: string, { signal }: { readonly signal: AbortSignal }): Promise<RunOutcomeView> {
      stop.abort();
      return { status: signal.aborted ? 'cancelled' : 'completed', text: '' } as RunOutcomeView;
    },
  };
  const piped = pipe(events, reader, { signal: stop.signal });
  expect((await piped.next()).value).toMatchObject({ outcome: { status: 'cancelled' } });
  const silent = pipe(new ReadableStream<RunEvent>(), reader, { signal: stop.signal });
  await expect(silent.next()).rejects.toMatchObject({ code: 'cancelled' });
  expect(seen.left).toBe(true);
});

test.each<[string, readonly Record<string, unknown>[], string]>([
  ['fails', [delta('a'), { type: 'run.failed', error: { code: 'provider_auth', message: 'no' } }], 'provider_auth'],
  ['is cancelled', [delta('a'), { type: 'run.cancelled' }], 'cancelled'],
  ['waits', [delta('a'), { type: 'run.suspended' }], 'internal'],
  ['starts a shown step again', [delta('a'), { type: 'step.reset' }, delta('a'), completed], 'provider_unavailable'],
])('the text of a run that %s ends in an error', async (_, events, code) => {
  await expect(all(textFrom(source(...events).events))).rejects.toMatchObject({ code });
});

test('a step that is made again before any of its text was read goes on', async () => {
  const events = [delta('a'), { type: 'text.complete', text: 'a' }, { type: 'step.reset' }, delta('b'), completed];
  expect(await all(textFrom(source(...events).events))).toEqual(['a', 'b']);
});

async function* given(texts: readonly string[]): AsyncGenerator<string> {
  yield* texts;
}

test('pieces are whole paragraphs, and long paragraphs end after a word', async () => {
  const pieces = await all(inPieces(given(['aaaa\n\nbb', 'bb\n\ncccc ', 'dddd eeee ffff gggg']), 12));
  expect(pieces).toEqual(['aaaa\n\nbbbb', 'cccc dddd', 'eeee ffff', 'gggg']);
});

test('pieces hold everything but the space around them, are short enough, and cut no character', async () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(text, fc.constantFrom('\n\n', ' '))),
      fc.integer({ min: 8, max: 40 }),
      async (texts, max) => {
        const pieces = await all(inPieces(given(texts), max));
        expect(pieces.join('').replace(/\s/g, '')).toBe(texts.join('').replace(/\s/g, ''));
        for (const piece of pieces) {
          expect(piece.length).toBeLessThanOrEqual(max);
          expect(piece.isWellFormed()).toBe(true);
        }
      },
    ),
  );
});

test.each([63, 100_001, 70.5])('pieces of %s characters are refused', async (pieceChars) => {
  const piped = pipe(source(completed).events, agent('a', always('x')), { pieceChars });
  await expect(piped.next()).rejects.toMatchObject({ code: 'invalid_config' });
});
