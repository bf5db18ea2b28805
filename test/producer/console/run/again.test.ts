import { expect, test } from 'vitest';
import { againOf, rerunOf, shownAgain } from '../../../../src/producer/console/views/run/record/again.ts';
import type { RunRequest } from '../../../../src/shared/contract/run.ts';

const noBytes = () => Promise.reject(new Error('no file is asked for'));

test('a run again asks for the same, and is a run of its own', async () => {
  const asked: RunRequest = {
    agent: 'support',
    input: 'Where is order 7?',
    executionId: 'order-7',
    batch: 'monday',
    chat: { turnIndex: 3 },
    delayMs: 60_000,
    thread: 'anna',
    limits: { maxSteps: 3 },
    metadata: { user: 'anna' },
  };
  expect(await againOf(asked, noBytes)).toEqual({
    agent: 'support',
    input: 'Where is order 7?',
    thread: 'anna',
    limits: { maxSteps: 3 },
    metadata: { user: 'anna' },
  });
});

test('files stand where they stood in the input, with their bytes', async () => {
  const handle = `media:${'a'.repeat(64)}` as never;
  const asked: RunRequest = {
    agent: 'reader',
    input: 'What is this?\n\nAnd this?',
    files: [
      { kind: 'image', source: { from: 'media', handle }, name: 'cat.png', mediaType: 'image/png', at: 13 },
      { kind: 'pdf', source: { from: 'url', url: 'https://files.example/a.pdf' }, name: 'a.pdf', at: 24 },
      { kind: 'file', source: { from: 'file', id: 'file-7' }, name: 'b.txt', at: 24 },
    ],
  };
  const { input } = await againOf(asked, async (at, type) => `data:${type};base64,${at.slice(0, 7)}`);
  expect(input).toEqual([
    { type: 'text', text: 'What is this?' },
    { type: 'image', name: 'cat.png', url: 'data:image/png;base64,media:a' },
    { type: 'text', text: 'And this?' },
    { type: 'file', name: 'a.pdf', url: 'https://files.example/a.pdf' },
    { type: 'file', name: 'b.txt', fileId: 'file-7' },
  ]);
  expect(shownAgain(asked).input).toContainEqual({ type: 'text', text: '[put cat.png here]' });
});

test('a request that is asked again names the run that it repeats, the newest where it was asked again before', () => {
  const request = { agent: 'a', input: 'i', metadata: { user: 'anna' } };
  const once = rerunOf('R1', request);
  expect(once.metadata).toEqual({ user: 'anna', rerun_of: 'R1' });
  expect(rerunOf('R2', once).metadata).toEqual({ user: 'anna', rerun_of: 'R2' });
  const full = { ...request, metadata: Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`key-${at}`, 'v'])) };
  expect(rerunOf('R1', full)).toBe(full);
});
