import { expect, onTestFinished, test } from 'vitest';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { openRemote } from '../../../src/producer/client/remote/operations.ts';
import type { BatchView } from '../../../src/shared/contract/batch.ts';
import { batchIs, fileLines, fileText, submitBatch } from '../../support/batches.ts';
import { until } from '../../support/redis.ts';
import { playFleet } from '../batch/support.ts';
import { serverWorld, type ServerWorld, type ServerWorldOptions } from './server-world.ts';

async function batchServer(options: ServerWorldOptions = {}): Promise<ServerWorld & { readonly upload: Upload }> {
  const world = await serverWorld(options);
  const advancing = await world.mill.batches.advance({ lockDurationMs: 1_500, stalledIntervalMs: 300 });
  onTestFinished(() => advancing[Symbol.asyncDispose]());
  const upload: Upload = async (text) => {
    const about = { filename: 'in.jsonl', purpose: 'batch' } as const;
    return (await world.mill.files.upload(Buffer.from(text), about)).id;
  };
  return { ...world, upload };
}
type Upload = (text: string) => Promise<string>;

const chat = (id: string, text: string) => ({
  custom_id: id,
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'support', messages: [{ role: 'user', content: text }] },
});

test('a batch of lines of the API of OpenAI has an output and an error file, as there', async () => {
  const world = await batchServer();
  playFleet(world, (writer, input) => writer.end(input.includes('fail') ? 'failed' : 'completed'));
  const lines = [chat('a', 'hello'), chat('b', 'fail'), { custom_id: 'c', body: {} }, chat('d', 'hello')];
  const input_file_id = await world.upload(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const asked = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { night: '1' } };
  const { status, body } = await world.send('POST', '/v1/batches', asked);
  expect([status, body]).toEqual([200, expect.objectContaining({ object: 'batch', status: 'validating', ...asked })]);
  const ended = await batchIs(world.mill, body.id, ['completed']);
  expect(ended.request_counts).toEqual({ total: 4, completed: 2, failed: 2 });
  const output = await fileLines(world.mill, ended.output_file_id);
  expect(output.map((line) => String(line['custom_id'])).toSorted(byText)).toEqual(['a', 'd']);
  for (const { response, error } of output) {
    expect(error).toBeNull();
    expect(response).toMatchObject({
      status_code: 200,
      body: { object: 'chat.completion', choices: [{ message: { content: 'It is on its way.' } }] },
    });
  }
  const errors = await fileLines(world.mill, ended.error_file_id);
  expect(errors.map((line) => String(line['custom_id'])).toSorted(byText)).toEqual(['b', 'c']);
});

test('batches are listed in pages in the envelope of OpenAI', async () => {
  const world = await batchServer();
  const made: string[] = [];
  for (let i = 0; i < 3; i++) made.unshift((await submitBatch(world.mill, ['x'], { agent: 'support' })).id);
  const { body } = await world.send('GET', '/v1/batches?limit=2');
  expect(body).toMatchObject({ object: 'list', first_id: made[0], last_id: made[1], has_more: true });
  const next = await world.send('GET', `/v1/batches?limit=2&after=${made[1]}`);
  expect(next.body).toMatchObject({ first_id: made[2], last_id: made[2], has_more: false });
  expect((await world.send('GET', '/v1/batches?after=batch_none')).status).toBe(400);
  expect((await world.send('GET', '/v1/batches?limit=0')).status).toBe(400);
});

test.each([
  ['no field', {}, 400, 'validation'],
  ['an endpoint that there is not', { endpoint: '/v1/embeddings' }, 400, 'validation'],
  ['a file that there is not', { input_file_id: 'file-01K9Z5N3T8R6V2X4B7C1D0E9FG' }, 404, 'not_found'],
  ['a window of a year', { completion_window: '365d' }, 400, 'validation'],
  ['a queue that there is not', { queue: 'slow' }, 400, 'unknown_queue'],
  ['fields of lines of ours for lines of theirs', { endpoint: '/v1/responses', agent: 'support' }, 400, 'validation'],
  ['two budgets', { budget: { maxCostUsd: 1, maxCostMicrocents: 1 } }, 400, 'validation'],
])('a batch with %s is refused in the shape of OpenAI', async (name, change, status, code) => {
  const world = await batchServer();
  const input_file_id = await world.upload('"x"\n');
  const asked = name === 'no field' ? {} : { input_file_id, endpoint: '/v1/runs', ...change };
  const answer = await world.send('POST', '/v1/batches', asked);
  expect([answer.status, answer.body.error]).toEqual([
    status,
    expect.objectContaining({
      message: expect.any(String),
      type: expect.any(String),
      param: expect.toSatisfy(isParam),
      code,
    }),
  ]);
});

const isParam = (param: unknown) => param === null || typeof param === 'string';

test('a file for something else, and one without a line, make no batch', async () => {
  const world = await batchServer();
  const { id } = await world.mill.files.upload(Buffer.from('x'), { filename: 'x.txt', purpose: 'user_data' });
  const refused = await world.send('POST', '/v1/batches', { input_file_id: id, endpoint: '/v1/runs' });
  expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining('user_data')]);
  const empty = await submitBatch(world.mill, '\n\n', { agent: 'support' });
  const failed = await batchIs(world.mill, empty.id, ['failed']);
  expect(failed.errors?.data).toMatchObject([{ message: 'the file has no lines', param: 'input_file_id' }]);
});

test.each([
  [
    'questions.jsonl',
    '"fine"\n{"id":"b"}\n"fail"\n"wait"\n',
    /"line":1,.*\n\{"line":2,"id":"b".*"validation"|"line":2/,
  ],
  [
    'questions.csv',
    'id,input\na,fine\nb,x,y\nc,fail\nd,wait\n',
    /^id,input,status,text,error,cost_usd,run_id\na,fine,completed/,
  ],
])(
  'results of %s are read before the end as after it, and those of failed lines by themselves',
  async (filename, lines, form) => {
    const world = await batchServer();
    let mayEnd = false;
    const held = until('it may end', async () => mayEnd);
    playFleet(world, async (writer, input) => {
      if (input.includes('wait')) void held.then(() => writer.end('completed'));
      else await writer.end(input.includes('fail') ? 'failed' : 'completed');
    });
    const { id, format } = await submitBatch(world.mill, lines, { agent: 'support', filename });
    expect(format).toBe(filename.split('.')[1]);
    await until('three lines have their outcome', async () => {
      const { completed, failed } = (await world.mill.batches.get(id)).request_counts;
      return completed + failed === 3;
    });
    const read = async (of?: string) => {
      const answer = await fetch(`${world.url}/v1/batches/${id}/results${of ? `?of=${of}` : ''}`);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-disposition')).toContain(`filename="${id}_${of ?? 'all'}.${format}"`);
      return await answer.text();
    };
    const rows = (text: string) =>
      text
        .trim()
        .split('\n')
        .slice(format === 'csv' ? 1 : 0);
    const early = await read();
    expect(early).toMatch(form);
    expect(rows(early)).toHaveLength(3);
    expect(rows(await read('answers'))).toHaveLength(1);
    const errors = await read('errors');
    expect(rows(errors)).toHaveLength(2);
    expect(errors).toContain('validation');
    const remote = openRemote({ url: world.url });
    const parts: Uint8Array[] = [];
    for await (const bytes of remote.batches.results(id, { of: 'errors' })) parts.push(bytes);
    expect(Buffer.concat(parts).toString()).toBe(errors);
    mayEnd = true;
    const { output_file_id: output } = await batchIs(world.mill, id, ['completed']);
    expect(await read()).toBe(await fileText(world.mill, output ?? ''));
    expect(rows(await read('answers'))).toHaveLength(2);
    expect(await read('errors')).toBe(errors);
    // The answers of before stay while the failed lines run again.
    await world.mill.batches.redrive(id);
    expect(rows(await read('answers'))).toHaveLength(2);
  },
);

test('results of no batch, of another tenant, and of an unknown kind are refused', async () => {
  const apiKeys = [`${sha256('a')}:default:*`, `${sha256('b')}:other:*`].join(',');
  const world = await batchServer({ apiKeys });
  const { id } = await submitBatch(world.mill, ['x'], { agent: 'support' });
  const status = async (path: string, key: string) =>
    (await world.send('GET', path, undefined, { authorization: `Bearer ${key}` })).status;
  expect(await status('/v1/batches/batch_none/results', 'a')).toBe(404);
  expect(await status(`/v1/batches/${id}/results`, 'b')).toBe(404);
  expect(await status(`/v1/batches/${id}/results?of=some`, 'a')).toBe(400);
  const empty = await fetch(`${world.url}/v1/batches/${id}/results`, { headers: { authorization: 'Bearer a' } });
  expect([empty.status, await empty.text()]).toEqual([200, '']);
});

test('a request that comes again makes no second batch', async () => {
  const world = await batchServer();
  const asked = { input_file_id: await world.upload('"x"\n'), endpoint: '/v1/runs', agent: 'support' };
  const post = async (headers: Record<string, string>, body: object = asked) =>
    await world.send('POST', '/v1/batches', body, headers);
  const { body: first } = await post({});
  expect((await post({ 'x-stainless-retry-count': '1' })).body.id).toBe(first.id);
  const { body: second } = await post({});
  expect(second.id).not.toBe(first.id);
  expect((await post({ 'x-stainless-retry-count': '2' })).body.id).toBe(second.id);
  const { body: keyed } = await post({ 'idempotency-key': 'k' });
  expect((await post({ 'idempotency-key': 'k' })).body.id).toBe(keyed.id);
  const other = await post({ 'idempotency-key': 'k' }, { ...asked, maxOpen: 7 });
  expect([other.status, other.body.error.code]).toEqual([409, 'idempotency_conflict']);
  expect((await world.mill.batches.list({ limit: 100 })).data).toHaveLength(3);
});

test('the events of a batch show how it goes on, to its end', async () => {
  const world = await batchServer();
  const { id } = await submitBatch(world.mill, ['a', 'b'], { agent: 'support' });
  const seen = (async () => await (await fetch(`${world.url}/v1/batches/${id}/events`)).text())();
  await until('lines are open', async () => (await world.mill.batches.get(id)).open.total === 2);
  playFleet(world, (writer) => writer.end());
  const events = (await seen).split('\n\n').filter((frame) => frame.startsWith('event: batch\ndata: '));
  const views = events.map((frame) => JSON.parse(frame.slice('event: batch\ndata: '.length)) as BatchView);
  expect(views.at(-1)).toMatchObject({ status: 'completed', request_counts: { completed: 2 } });
  expect(views.length).toBeGreaterThan(1);
  expect((await world.send('GET', '/v1/batches/batch_none/events')).status).toBe(404);
});

test('pause, resume, cancel and redrive of what has ended, or is none', async () => {
  const world = await batchServer();
  playFleet(world, (writer) => writer.end());
  const { id } = await submitBatch(world.mill, ['a'], { agent: 'support' });
  await batchIs(world.mill, id, ['completed']);
  for (const verb of ['pause', 'resume', 'cancel']) {
    const { status, body } = await world.send('POST', `/v1/batches/${id}/${verb}`);
    expect([status, body.error.code]).toEqual([409, 'already_terminal']);
    expect((await world.send('POST', `/v1/batches/nothing/${verb}`)).status).toBe(404);
  }
  const { status, body } = await world.send('POST', `/v1/batches/${id}/redrive`);
  expect([status, body]).toMatchObject([200, { lines: 0, batch: { status: 'completed' } }]);
});

test('a caller raises no budget of a batch that has one, and an operator does', async () => {
  const apiKeys = [`${sha256('caller')}:default:read+write`, `${sha256('admin')}:default:*`].join(',');
  const world = await batchServer({ apiKeys });
  const asked = { input_file_id: await world.upload('"x"\n'), endpoint: '/v1/runs', agent: 'support', name: 'night' };
  const post = async (key: string, maxCostUsd: number) => {
    const body = { ...asked, budget: { maxCostUsd } };
    return (await world.send('POST', '/v1/batches', body, { authorization: `Bearer ${key}` })).status;
  };
  expect(await post('caller', 2)).toBe(200);
  expect(await post('caller', 1)).toBe(200);
  expect(await post('caller', 3)).toBe(403);
  expect((await world.mill.budgets.get('batch', 'night')).capMicrocents).toBe(100_000_000);
  expect(await post('admin', 3)).toBe(200);
});

test('the client over HTTP has the same batches', async () => {
  const world = await batchServer();
  const { batches } = openRemote({ url: world.url });
  const asked = { input_file_id: await world.upload('"a"\n"b"\n'), endpoint: '/v1/runs', agent: 'support' } as const;
  const made = await batches.create({ ...asked, maxOpen: 1 });
  expect(await batches.get(made.id)).toMatchObject({ id: made.id });
  await until('a line is open', async () => (await batches.get(made.id)).open.total === 1);
  expect((await batches.pause(made.id)).status).toBe('paused');
  expect((await batches.resume(made.id)).status).toBe('in_progress');
  playFleet(world, (writer) => writer.end());
  const statuses: string[] = [];
  for await (const view of batches.events(made.id)) statuses.push(view.status);
  expect(statuses.at(-1)).toBe('completed');
  expect((await batches.list()).data.map(({ id }) => id)).toEqual([made.id]);
  expect(await batches.redrive(made.id)).toMatchObject({ lines: 0 });
  await expect(batches.cancel(made.id)).rejects.toMatchObject({ code: 'already_terminal' });
  await expect(batches.get('batch_none')).rejects.toMatchObject({ code: 'not_found' });
});

function byText(a: string, b: string): number {
  return a < b ? -1 : 1;
}
