import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { Millrace } from '../../src/producer/index.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { millrace } from '../producer/cli/support/cli-process.ts';
import {
  archived,
  canary,
  canaryIn,
  checkErasingAUser,
  type ErasurePlace,
  everything,
  filesBelow,
  metadata,
} from '../support/erased-user.ts';
import { batchIs, fileText, submitBatch } from '../support/batches.ts';
import { call } from '../support/http.ts';
import { planInput } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const root = mkdtempSync(join(tmpdir(), 'millrace-erasure-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const shared = shareWorld({ producer: true, env: { ARTIFACT_STORE: `file:${root}`, ARCHIVE_TTL_S: '3600' } });

async function erasureWorld() {
  const { world } = shared;
  const { redisUrl, prefix } = world.fleet;
  const redis = await testRedis('work', redisUrl);
  const mill = new Millrace({ redis: redisUrl, prefix, artifactStore: `file:${root}`, modelAllowlist: ['*'] });
  onTestFinished(() => mill.close());
  const inRedis = async () => canaryIn(await everything([redis], prefix));
  const inFolder = async () => canaryIn(await filesBelow(root));
  const holders = async () => [...(await inRedis()), ...(await inFolder())];
  const names = async () => readdirSync(root, { recursive: true, encoding: 'utf8' });
  const place: ErasurePlace = { world, redis, mill, keys: keysFor(prefix), holders, names };
  return { ...place, prefix, inRedis, inFolder };
}

test('erasing a user leaves no byte in Redis, the archive or the store, and gives a receipt that verifies', async () => {
  await checkErasingAUser(await erasureWorld());
});

test('a run whose record is gone is erased from the archive, and the command keeps and verifies the receipt', async () => {
  const at = await erasureWorld();
  const { mill, redis, keys, prefix, world } = at;
  const run = await mill.enqueue({ agent: 'plain', input: planInput({ text: canary }), metadata });
  await run.result();
  await archived(at);
  await redis.del(keys.run(run.runId), keys.journal(run.runId), keys.events(run.runId));
  expect(await at.inFolder()).not.toEqual([]);
  const file = join(root, '..', `receipt-${prefix}.jsonl`);
  onTestFinished(() => rmSync(file, { force: true }));
  const env = { MILLRACE_URL: world.url };
  const erased = await millrace(['erase', '--metadata', `user=${canary}`, '--yes', '-o', file], { env });
  expect([erased.code, erased.stderr]).toEqual([0, 'Erased: 1 run, 0 threads.\n']);
  expect(await at.inFolder()).toEqual([]);
  expect(await at.inRedis()).toEqual([]);
  expect((await millrace(['receipt', 'verify', file], { env })).code).toBe(0);
  writeFileSync(file, readFileSync(file, 'utf8').replace('"records":0', '"records":1'));
  const changed = await millrace(['receipt', 'verify', file], { env });
  expect([changed.code, changed.stdout.slice(0, 9)]).toEqual([1, 'NOT VALID']);
});

test.each(['Basic subscription', 'sk-customer-0042', '\u{1F468}'.repeat(60), 'a\0b'])(
  'a run of which only the archive is left is found, and erased, by metadata that is not kept as it was: %j',
  async (plan) => {
    const at = await erasureWorld();
    const { mill, redis, keys, world } = at;
    const run = await mill.enqueue({ agent: 'plain', input: planInput({ text: canary }), metadata: { plan } });
    await run.result();
    await archived(at);
    await redis.del(keys.run(run.runId), keys.journal(run.runId), keys.events(run.runId));
    const query = `metadata.plan=${encodeURIComponent(plan)}`;
    const { body: listed } = await call('GET', `${world.url}/v1/runs?counts=true&${query}`);
    expect([listed.runs, listed.counts]).toEqual([
      [expect.objectContaining({ runId: run.runId })],
      expect.objectContaining({ total: 1 }),
    ]);
    const other = await call('DELETE', `${world.url}/v1/runs?metadata.plan=Basic%20other-thing`);
    expect(other.body.receipt.runs).toEqual([]);
    const { body } = await call('DELETE', `${world.url}/v1/runs?${query}`);
    expect(body.receipt.runs).toEqual([run.runId]);
    expect(await at.holders()).toEqual([]);
  },
);

test('the command names a run whose record is damaged as left, and erases it by its id', async () => {
  const at = await erasureWorld();
  const { mill, redis, keys, world } = at;
  const run = await mill.enqueue({ agent: 'plain', input: planInput({ text: canary }), metadata });
  await run.result();
  await archived(at);
  await redis.del(keys.run(run.runId), keys.journal(run.runId), keys.events(run.runId));
  const [blob = ''] = await at.inFolder();
  writeFileSync(blob, readFileSync(blob).subarray(0, 100));
  const env = { MILLRACE_URL: world.url };
  const left = await millrace(['erase', '--metadata', `user=${canary}`, '--yes'], { env });
  const none = 'Erased: 0 runs, 0 threads.';
  expect([left.code, left.stderr]).toEqual([1, `Left: ${run.runId} (unreadable)\n${none}\n`]);
  expect(existsSync(blob)).toBe(true);
  const erased = await millrace(['erase', run.runId], { env });
  const unknown = `Erased, but what belongs to it is not known: ${run.runId} (unreadable)`;
  expect([erased.code, erased.stderr]).toEqual([1, `${unknown}\nErased: 1 run, 0 threads.\n`]);
  expect(existsSync(blob)).toBe(false);
});

test('a run that works is refused, or cancelled first where that is asked', async () => {
  const at = await erasureWorld();
  const { mill, world } = at;
  const slow = planInput({ text: `${canary} word word`, pieces: 3, hold: { gate: 'never', afterPieces: 1 } });
  const run = await mill.enqueue({ agent: 'plain', input: slow, metadata });
  await until('it runs', async () => (await run.get()).status === 'running');
  const url = `${world.url}/v1/runs/${run.runId}`;
  const refused = await call('DELETE', url);
  expect([refused.status, refused.body.error.code]).toEqual([409, 'concurrent_run']);
  const { kept } = await mill.erase({ metadata });
  expect(kept).toEqual([{ runId: run.runId, reason: 'open' }]);
  expect((await call('DELETE', `${url}?cancel=true`)).body.receipt.runs).toEqual([run.runId]);
  expect(await at.inRedis()).toEqual([]);
  const again = await call('DELETE', url);
  expect([again.status, again.body.error.code, again.body.error.details]).toEqual([410, 'gone', { reason: 'erased' }]);
});

test('a thread goes with all of its runs, and one of its runs only with it', async () => {
  const at = await erasureWorld();
  const { mill, world } = at;
  const turn = async (text: string) => {
    const run = await mill.enqueue({ agent: 'plain', input: planInput({ text }), thread: 't1' });
    await run.result();
    return run.runId;
  };
  const runs = [await turn(canary), await turn('Another turn.')].sort();
  const [first = ''] = runs;
  const alone = await call('DELETE', `${world.url}/v1/runs/${first}`);
  expect([alone.status, alone.body.error.message]).toEqual([400, expect.stringContaining('thread')]);
  const { status, body } = await call('DELETE', `${world.url}/v1/threads/t1?runs=true`);
  expect([status, body.deleted, body.receipt.runs, body.receipt.threads]).toEqual([200, true, runs, ['t1']]);
  expect(await at.inRedis()).toEqual([]);
  expect((await call('DELETE', `${world.url}/v1/threads/t1?runs=true`)).status).toBe(404);
});

test('users with lines in one file who are erased at the same time all leave nothing in it', async () => {
  const { mill } = await erasureWorld();
  const users = Array.from({ length: 8 }, (_, i) => `${canary}-${i}`);
  const lines = users.map((user) => ({ id: user, input: planInput({ text: user }), metadata: { user } }));
  const { id } = await submitBatch(mill, lines, { agent: 'plain' });
  const { output_file_id: output = '', input_file_id: input } = await batchIs(mill, id, ['completed'], 30_000);
  const answers = await Promise.all(users.map((user) => mill.erase({ metadata: { user } })));
  expect(answers.map(({ receipt }) => receipt.erased.batchLines)).toEqual(users.map(() => 2));
  const left = `${await fileText(mill, input)}${await fileText(mill, output)}`;
  expect(
    left
      .trimEnd()
      .split('\n')
      .map((line) => line.trimEnd()),
  ).toEqual(Array(16).fill('{"erased":true}'));
});

test.each(['in.jsonl', 'in.csv'])(
  'a line of output that is too long to be a line of input goes from %s, too',
  async (filename) => {
    const { mill, world, ...at } = await erasureWorld();
    const isCsv = filename.endsWith('csv');
    const answer = JSON.stringify({ a: `${canary} ${'y'.repeat(isCsv ? 1_000_000 : 700_000)}` });
    world.provider.words.set('answer', answer);
    const outputSchema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
    const input = planInput({ text: '%answer', pieces: 1 });
    const row = `id,input,metadata.user,more\na,"${input.replaceAll('"', '""')}",${canary},${'x'.repeat(100_000)}\n`;
    const lines = isCsv ? row : [{ id: 'a', input, metadata, outputSchema }];
    const { id } = await submitBatch(mill, lines, { agent: 'plain', filename });
    const { output_file_id: output = '' } = await batchIs(mill, id, ['completed'], 30_000);
    expect((await fileText(mill, output)).length).toBeGreaterThan(1024 * 1024);
    expect((await mill.erase({ metadata })).receipt.erased.batchLines).toBe(2);
    expect([...(await at.inRedis()), ...(await at.inFolder())]).toEqual([]);
  },
);

test('lines that say the same are all erased, one after the other', async () => {
  const { mill, ...at } = await erasureWorld();
  const line = { input: planInput({ text: canary }), metadata };
  const { id } = await submitBatch(mill, [line, line, { ...line, metadata: {} }, line], { agent: 'plain' });
  const { input_file_id: input } = await batchIs(mill, id, ['completed'], 30_000);
  expect((await mill.erase({ metadata })).receipt).toMatchObject({ erased: { records: 3, batchLines: 6 } });
  expect((await fileText(mill, input)).split('\n').filter((text) => text.includes(canary))).toHaveLength(1);
  const [other] = (await mill.list({ batch: id })).runs;
  expect((await mill.erase({ run: other?.runId ?? '' })).receipt.erased.batchLines).toBe(2);
  expect([...(await at.inRedis()), ...(await at.inFolder())]).toEqual([]);
});

test('a batch some lines of which were erased is redriven to its end, and runs no line of others twice', async () => {
  const { mill, world } = await erasureWorld();
  const failing = (text: string) => planInput({ text, faults: [{ kind: 'status', status: 400 }] });
  const row = (id: string, input: string) => `${id},"${input.replaceAll('"', '""')}"\n`;
  const mine = [row('m1', planInput({ text: canary })), row('m2', failing(canary))];
  const content = ['id,input\n', ...mine, row('bad', failing('better')), row('good', planInput({ text: 'fine' }))];
  const { id } = await submitBatch(mill, content.join(''), { agent: 'lonely', filename: 'in.csv' });
  expect((await batchIs(mill, id, ['completed'], 30_000)).request_counts).toMatchObject({ completed: 2, failed: 2 });
  for (const { runId } of (await mill.list({ batch: id })).runs)
    if (JSON.stringify(await mill.get(runId)).includes(canary)) await mill.erase({ run: runId });
  const calls = () => world.provider.calls.length;
  const before = calls();
  await mill.batches.redrive(id);
  const again = await batchIs(mill, id, ['completed'], 30_000);
  expect([again.request_counts, calls() - before]).toMatchObject([{ completed: 3, failed: 1 }, 1]);
  const output = await fileText(mill, again.output_file_id ?? '');
  expect(output).toContain('better');
  expect(output).toContain('was erased');
  expect(output).not.toContain(canary);
});

test.each([
  ['in.jsonl', (text: string) => [{ id: 'b', input: planInput({ text }) }]],
  ['in.csv', (text: string) => `id,input\nb,"${planInput({ text }).replaceAll('"', '""')}"\n`],
])('a line of %s whose answer names a run stays when that run is erased', async (filename, lines) => {
  const { mill, prefix } = await erasureWorld();
  const name = `${prefix}-${filename}`;
  const first = await submitBatch(mill, lines(canary), { agent: 'plain', name, filename });
  await batchIs(mill, first.id, ['completed'], 30_000);
  const [run] = (await mill.list({ batch: name })).runs;
  const second = await submitBatch(mill, lines(`See ${run?.runId}.`), { agent: 'plain', name, filename });
  const { output_file_id: output = '' } = await batchIs(mill, second.id, ['completed'], 30_000);
  expect((await mill.erase({ run: run?.runId ?? '' })).receipt.erased.batchLines).toBe(2);
  expect(await fileText(mill, output)).toContain(`See ${run?.runId}.`);
});
