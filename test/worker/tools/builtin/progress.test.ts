import { expect, test } from 'vitest';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { RunError } from '../../../../src/shared/base/errors.ts';
import type { ProgressNote } from '../../../../src/shared/contract/artifacts.ts';
import { Redactor } from '../../../../src/shared/base/redact.ts';
import type { ProgressNotes } from '../../../../src/shared/state/results/progress-notes.ts';
import { inMemoryProgress } from '../../../../src/worker/local/stores/in-memory-results.ts';
import { createProgressTools } from '../../../../src/worker/tools/builtin/progress.ts';
import type { ToolOutput } from '../../../../src/worker/tools/tool.ts';
import { callTool, valueOf } from '../execute/context.ts';

const earlier = '01KAPN3YV8Q2T5W7X9Z0A1B2C4';

function makeTools(notes: ProgressNotes = inMemoryProgress(systemClock)) {
  const [write, read] = createProgressTools(notes, new Redactor(['hunter2-secret']));
  return { notes, write, read };
}

test('a note of an earlier run is read by a later one, and events name it without its text', async () => {
  const { write, read } = makeTools();
  const written = await callTool(write, { content: 'Half done.', tags: ['a'] }, { runId: earlier });
  const note = written.output as ProgressNote;
  expect(note).toMatchObject({ ref: `${earlier}/progress/agent.001.txt`, role: 'agent', seq: 1, tags: ['a'] });
  expect(written.events).toEqual([{ type: 'agent.progress.written', ref: note.ref, sha256: note.sha256 }]);
  const later = await callTool(read, { runId: earlier });
  expect(valueOf(later)).toEqual({ notes: [{ ...note, text: 'Half done.' }] });
  expect(later.events).toEqual([{ type: 'agent.progress.read', ref: note.ref, sha256: note.sha256 }]);
  expect(valueOf(await callTool(read, {}))).toEqual({ notes: [] });
});

test('notes of another tenant are not there', async () => {
  const { write, read } = makeTools();
  await callTool(write, { content: 'Ours.' }, { runId: earlier });
  expect(valueOf(await callTool(read, { runId: earlier }, { tenant: 'other' }))).toEqual({ notes: [] });
});

test('a call that is repeated after a crash writes once', async () => {
  const { write, read } = makeTools();
  const first = await callTool(write, { content: 'Once.' }, { idempotencyKey: 'R:s1:t0' });
  const again = await callTool(write, { content: 'Once.' }, { idempotencyKey: 'R:s1:t0' });
  expect(again.output).toEqual(first.output);
  await callTool(write, { content: 'Twice.' }, { idempotencyKey: 'R:s2:t0' });
  const { notes } = valueOf(await callTool(read, {})) as { readonly notes: readonly { readonly text: string }[] };
  const texts = notes.map(({ text }) => text);
  expect(texts).toEqual(['Once.', 'Twice.']);
});

test('secrets are taken out of a note', async () => {
  const { write, read } = makeTools();
  await callTool(write, { content: 'The key is hunter2-secret.' });
  expect(JSON.stringify(valueOf(await callTool(read, {})))).not.toContain('hunter2-secret');
});

test('what is read travels no further than its most sensitive note, and is labelled as what others wrote', async () => {
  const { write, read } = makeTools();
  for (const sensitivity of ['internal', 'public'])
    await callTool(write, { content: sensitivity, sensitivity }, { idempotencyKey: sensitivity });
  const { output } = await callTool(read, {});
  expect((output as ToolOutput).origin?.sensitivity).toBe('internal');
  expect(((await callTool(read, { sinceSeq: 1 })).output as ToolOutput).origin?.sensitivity).toBe('public');
  expect((output as ToolOutput).origin?.trust).toBe('external');
});

test('a write that fails says so with its code', async () => {
  const { write } = makeTools();
  await callTool(write, { content: 'x', seq: 1 }, { idempotencyKey: 'one' });
  const taken = callTool(write, { content: 'x', seq: 1 }, { idempotencyKey: 'two' });
  await expect(taken).rejects.toMatchObject({
    kind: 'execution_failed',
    message: expect.stringMatching(/^progress_write_failed: .*taken/) as string,
  });
  const notes: ProgressNotes = {
    write: () => Promise.reject(new RunError('progress_write_failed', 'its store failed')),
    read: async () => [],
  };
  await expect(callTool(makeTools(notes).write, { content: 'x' })).rejects.toThrow('progress_write_failed');
});

test.each([
  [{ content: 'x', role: '../x' }],
  [{ content: 'x', role: 'Agent' }],
  [{ content: 'x', seq: 0 }],
  [{ content: 'x', tags: [''] }],
  [{}],
])('arguments like %j are not right', async (args) => {
  expect(await makeTools().write.check(args)).toMatchObject({ ok: false });
});

test('a note that is too long is invalid input', async () => {
  const long = callTool(makeTools().write, { content: 'x'.repeat(65_537) });
  await expect(long).rejects.toMatchObject({ kind: 'invalid_input' });
});

test.each([[{ runId: '../x' }], [{ maxArtifacts: 101 }], [{ role: '*' }]])(
  'reading with %j is not right',
  async (args) => {
    expect(await makeTools().read.check(args)).toMatchObject({ ok: false });
  },
);
