import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { ProgressDraft, ProgressNotes } from '../../src/shared/state/results/progress-notes.ts';

const run = '01KAPN3YV8Q2T5W7X9Z0A1B2C3';
let keys = 0;

/** A note as short as it can be; every one is a write of its own. */
export function draft(text: string, more: Partial<ProgressDraft> = {}): ProgressDraft {
  const plain = { runId: run, tenant: 'acme', role: 'agent', sensitivity: 'public', tags: [] } as const;
  return { ...plain, text, key: `k${++keys}`, ...more };
}

/** What progress notes promise. `makeWorld` gives them; asked again, as another worker has them. */
export function progressContract(name: string, makeWorld: () => Promise<() => Promise<ProgressNotes>>): void {
  describe(`${name} as progress notes`, () => {
    test('a note is numbered, described, and read by another worker', async () => {
      const worker = await makeWorld();
      const text = 'Half of it is done: 漢字 😀';
      const note = await (await worker()).write(draft(text, { tags: ['half', 'b'], sensitivity: 'internal' }));
      expect(note).toEqual({
        ref: `${run}/progress/agent.001.txt`,
        runId: run,
        role: 'agent',
        seq: 1,
        bytes: Buffer.byteLength(text),
        sensitivity: 'internal',
        tags: ['half', 'b'],
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
        sha256: createHash('sha256').update(text).digest('hex'),
      });
      expect(await (await worker()).read('acme', run, {})).toEqual([{ note, text }]);
    });

    test('numbers count for each role; a wanted number is given when it is free', async () => {
      const notes = await (await makeWorld())();
      const seqOf = async (more: Partial<ProgressDraft>) => (await notes.write(draft('x', more))).seq;
      expect(await seqOf({})).toBe(1);
      expect(await seqOf({ role: 'planner' })).toBe(1);
      expect(await seqOf({ seq: 7 })).toBe(7);
      expect(await seqOf({})).toBe(8);
      expect(await seqOf({ seq: 3 })).toBe(3);
      expect(await seqOf({})).toBe(9);
      await expect(notes.write(draft('other', { seq: 7 }))).rejects.toMatchObject({ code: 'progress_write_failed' });
      const read = await notes.read('acme', run, { role: 'agent' });
      expect(read.map(({ note }) => note.seq)).toEqual([1, 3, 7, 8, 9]);
      expect(read.map(({ text }) => text)).not.toContain('other');
    });

    test('the same write again answers the same note and adds nothing', async () => {
      const worker = await makeWorld();
      const same = draft('once');
      const first = await (await worker()).write(same);
      expect(await (await worker()).write(same)).toEqual(first);
      expect(await (await worker()).read('acme', run, {})).toHaveLength(1);
    });

    test('two workers that write a hundred notes each at once get two hundred numbers', async () => {
      const worker = await makeWorld();
      const [one, two] = [await worker(), await worker()];
      const texts = Array.from({ length: 200 }, (_, i) => `note ${i}`);
      const written = await Promise.all(texts.map((text, i) => (i % 2 ? one : two).write(draft(text))));
      expect(written.map((note) => note.seq).toSorted((a, b) => a - b)).toEqual(texts.map((_, i) => i + 1));
      const pages = await Promise.all([0, 100].map((sinceSeq) => one.read('acme', run, { sinceSeq })));
      const read = pages.flat();
      expect(read.map(({ note }) => note.seq)).toEqual(texts.map((_, i) => i + 1));
      for (const { note, text } of read) expect(text).toBe(texts[written.findIndex((other) => other.seq === note.seq)]);
    });

    test('reading is by number and then by role, from a number on, and bounded', async () => {
      const notes = await (await makeWorld())();
      for (const role of ['b', 'a'])
        for (const text of ['1', '2', '3']) await notes.write(draft(role + text, { role }));
      const texts = async (query: Parameters<ProgressNotes['read']>[2]) =>
        (await notes.read('acme', run, query)).map(({ text }) => text);
      expect(await texts({})).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'b3']);
      expect(await texts({ role: 'b', sinceSeq: 1 })).toEqual(['b2', 'b3']);
      expect(await texts({ sinceSeq: 1, maxArtifacts: 3 })).toEqual(['a2', 'b2', 'a3']);
      await expect(notes.read('acme', run, { maxArtifacts: 101 })).rejects.toMatchObject({ code: 'validation' });
    });

    test('another tenant reads nothing of it, and another run neither', async () => {
      const notes = await (await makeWorld())();
      await notes.write(draft('ours'));
      expect(await notes.read('other', run, {})).toEqual([]);
      expect(await notes.read('acme', '01KAPN3YV8Q2T5W7X9Z0A1B2C4', {})).toEqual([]);
    });

    test.each([
      [{ role: '../x' }],
      [{ role: 'Agent' }],
      [{ role: '' }],
      [{ role: 'a.b' }],
      [{ runId: '../x' }],
      [{ seq: 0 }],
      [{ seq: 1.5 }],
      [{ text: 'x'.repeat(65_537) }],
      [{ tags: [''] }],
    ])('a draft with %j is refused as invalid', async (wrong) => {
      const notes = await (await makeWorld())();
      await expect(notes.write(draft('x', wrong))).rejects.toMatchObject({ code: 'validation' });
    });

    test('a run has a thousand notes at most', async () => {
      const notes = await (await makeWorld())();
      for (let at = 0; at < 1_000; at += 100)
        await Promise.all(Array.from({ length: 100 }, () => notes.write(draft('x', { role: `r${at}` }))));
      await expect(notes.write(draft('x'))).rejects.toMatchObject({ code: 'progress_write_failed' });
    });
  });
}
