import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { redisProgress } from '../../../src/shared/state/results/progress-notes.ts';
import { draft } from '../../contract/progress-notes.ts';
import { millrace, settings } from '../cli/support/cli-process.ts';
import type { ClientWorld } from '../cli/options/client.ts';
import { serverWorld } from './server-world.ts';

const gone = '01KAPN3YV8Q2T5W7X9Z0A1B2C3';
const digest = (key: string) => createHash('sha256').update(key).digest('hex');

function notesOf({ redis, keys }: ClientWorld, root?: string) {
  return redisProgress({ redis, keys, clock: systemClock, ttlS: 1_000, ...(root !== undefined && { root }) });
}

function folder(): string {
  const root = mkdtempSync(join(tmpdir(), 'millrace-notes-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

test('notes of a run that is long gone are read over HTTP, by role and number', async () => {
  const world = await serverWorld();
  const notes = notesOf(world);
  for (const text of ['one', 'two']) await notes.write(draft(text, { tenant: 'default' }));
  await notes.write(draft('plan', { tenant: 'default', role: 'planner' }));
  const ask = async (query: string) => await world.send('GET', `/v1/runs/${gone}/progress${query}`);
  const all = await ask('');
  expect(all.status).toBe(200);
  expect(all.body.notes[0]).toMatchObject({
    ref: `${gone}/progress/agent.001.txt`,
    role: 'agent',
    seq: 1,
    text: 'one',
  });
  const texts = ({ body }: typeof all) => body.notes.map(({ text }: { text: string }) => text);
  expect(texts(all)).toEqual(['one', 'plan', 'two']);
  expect(texts(await ask('?role=agent&sinceSeq=1'))).toEqual(['two']);
  expect(texts(await ask('?maxArtifacts=2'))).toEqual(['one', 'plan']);
  for (const wrong of ['?role=..%2Fx', '?maxArtifacts=101', '?sinceSeq=-1'])
    expect((await ask(wrong)).body.error?.code).toBe('validation');
});

test('a run without notes has none, and a run that is not there is not found', async () => {
  const { send, start } = await serverWorld();
  const { runId } = await start();
  expect((await send('GET', `/v1/runs/${runId}/progress`)).body).toEqual({ notes: [] });
  expect((await send('GET', `/v1/runs/${gone}/progress`)).body.error.code).toBe('run_not_found');
});

test('a program leaves a note in a run, which agents and other programs read', async () => {
  const world = await serverWorld();
  const { runId } = await world.start();
  const write = async (body: unknown, key?: string) =>
    await world.send('POST', `/v1/runs/${runId}/progress`, body, key === undefined ? {} : { 'idempotency-key': key });
  const first = await write({ text: 'exported', tags: ['export'] }, 'once');
  expect(first).toMatchObject({ status: 201, body: { role: 'program', seq: 1, bytes: 8, sensitivity: 'public' } });
  expect((await write({ text: 'exported' }, 'once')).body).toEqual(first.body);
  const taken = await write({ text: 'again', seq: 1 });
  expect([taken.status, taken.body.error.code]).toEqual([409, 'progress_write_failed']);
  expect((await write({ text: 'x', role: '../x' })).body.error.code).toBe('validation');
  expect((await write({ text: 'x'.repeat(65_537) })).body.error.code).toBe('validation');
  expect((await world.send('POST', `/v1/runs/${gone}/progress`, { text: 'x' })).body.error.code).toBe('run_not_found');
  await world.mill.writeProgress(runId, { text: 'checked', role: 'agent', sensitivity: 'internal' });
  const notes = await notesOf(world).read('default', runId, {});
  expect(notes.map(({ note, text }) => [note.role, note.seq, text])).toEqual([
    ['agent', 1, 'checked'],
    ['program', 1, 'exported'],
  ]);
});

test('a note of a program is in the folder of the agents that read it', async () => {
  const root = folder();
  const world = await serverWorld({ client: { artifactStore: `file:${root}` } });
  const { runId } = await world.start();
  await world.mill.writeProgress(runId, { text: 'in a file' });
  expect(await notesOf(world, root).read('default', runId, {})).toMatchObject([{ text: 'in a file' }]);
});

test('notes of another tenant are those of a run that is not there', async () => {
  const world = await serverWorld({ apiKeys: `${digest('a')}:acme:read,${digest('b')}:other:read` });
  await notesOf(world).write(draft('ours'));
  const ask = async (key: string) =>
    await world.send('GET', `/v1/runs/${gone}/progress`, undefined, { authorization: `Bearer ${key}` });
  expect((await ask('a')).body.notes).toHaveLength(1);
  expect((await ask('b')).body.error.code).toBe('run_not_found');
});

test('texts in a folder are read there, and are left out by a producer that does not have it', async () => {
  const root = folder();
  const world = await serverWorld({ client: { artifactStore: `file:${root}` } });
  await notesOf(world, root).write(draft('in a file', { tenant: 'default' }));
  expect(await world.mill.progress(gone)).toMatchObject([{ text: 'in a file' }]);
  const without = await serverWorld({ client: { prefix: world.prefix } });
  const [note] = await without.mill.progress(gone);
  expect([note?.seq, note?.text]).toEqual([1, undefined]);
});

test('the command shows notes for people, as JSON, and from a folder', async () => {
  const root = folder();
  const world = await serverWorld();
  const notes = notesOf(world, root);
  await notes.write(draft('one\u001b[2J', { tenant: 'default', tags: ['first'] }));
  await notes.write(draft('two', { tenant: 'default' }));
  const env = { ...settings(world.prefix), ARTIFACT_STORE: `file:${root}` };
  const shown = await millrace(['progress', gone], { env });
  expect(shown.stdout).toMatch(/^agent 1 {2}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}first\none\[2J\n\nagent 2 .*\ntwo\n\n$/);
  const json = await millrace(['progress', gone, '--after', '1', '--json'], { env });
  expect(JSON.parse(json.stdout)).toMatchObject([{ seq: 2, text: 'two' }]);
  const elsewhere = await millrace(['progress', gone], { env: settings(world.prefix) });
  expect(elsewhere.stdout).toContain('(its text is not readable here: see ARTIFACT_STORE)');
  const none = await millrace(['progress', gone, '--role', 'planner'], { env });
  expect([none.code, none.stdout, none.stderr]).toEqual([0, '', 'There are no such notes.\n']);
});
