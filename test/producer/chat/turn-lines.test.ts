import { expect, test } from 'vitest';
import { TurnLines } from '../../../src/producer/chat/turn-lines.ts';
import { linesOf, readAll } from './support.ts';

const line = (n: number) => ({ type: 'n', data: n });

async function write(lines: TurnLines, from: number, to: number): Promise<void> {
  for (let n = from; n <= to; n++) {
    lines.add(line(n));
    await lines.room();
  }
}

test('a reader that takes nothing is waited for once, and then no more', async () => {
  const lines = new TurnLines({ ahead: 2, stallMs: 30 });
  const body = lines.body();
  const begun = performance.now();
  await write(lines, 1, 50);
  const took = performance.now() - begun;
  expect(took).toBeGreaterThanOrEqual(25);
  expect(took).toBeLessThan(2_000);
  lines.end();
  expect(await readAll(body)).toHaveLength(50);
});

test('over the limit only what a reader still needs is kept, and later readers can see that', async () => {
  const lines = new TurnLines({ ahead: 4, maxChars: 200 });
  const reader = linesOf(lines.body());
  const seen: unknown[] = [];
  const reading = (async () => {
    for await (const { data } of reader) seen.push(data);
  })();
  await write(lines, 1, 100);
  expect([lines.isWhole, lines.events]).toEqual([false, undefined]);
  lines.end();
  await reading;
  expect(seen).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
});

test('an abandoned reader whose lines are gone comes to an end', async () => {
  const lines = new TurnLines({ ahead: 1, stallMs: 1, maxChars: 100 });
  const body = lines.body();
  await write(lines, 1, 50);
  expect(await readAll(body)).toEqual([]);
});

test('a cancelled reader is not waited for, also in the middle of a wait', async () => {
  const lines = new TurnLines({ ahead: 1, stallMs: 60_000 });
  const body = lines.body();
  const writing = write(lines, 1, 20);
  await body.cancel();
  await writing;
  expect(lines.events).toHaveLength(20);
});
