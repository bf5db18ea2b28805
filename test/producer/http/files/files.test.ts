import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createHash } from 'node:crypto';
import OpenAI, { toFile } from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { serverWorld } from '../server-world.ts';

const keyOf = (tenant: string) => `key-of-${tenant}`;
const keys = ['a', 'b'].map((tenant) => `${createHash('sha256').update(keyOf(tenant)).digest('hex')}:${tenant}`);

/** A producer with files in a folder, and what lies there. */
async function filesServer(options: Parameters<typeof serverWorld>[0] = {}) {
  const root = mkdtempSync(join(tmpdir(), 'millrace-files-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const world = await serverWorld({ client: { artifactStore: `file:${root}` }, ...options });
  const kept = () => readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return { ...world, files: `${world.url}/v1/files`, kept };
}

function form(fields: Record<string, string | File | readonly File[]>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? (value as File[]) : [value as string | File]) {
      if (typeof one === 'string') data.append(name, one);
      else data.append(name, one);
    }
  }
  return data;
}

const lines = new File(['{"input":"a"}\n'], 'lines.jsonl', { type: 'application/jsonl' });

test('a file goes up, is listed, comes down as it was, and is gone once it was deleted', async () => {
  const { files, kept } = await filesServer();
  const body = Buffer.from(Array.from({ length: 2_500_000 }, (_, i) => (i * 7 + (i >> 8)) & 0xff));
  const posted = await fetch(files, {
    method: 'POST',
    body: form({ file: new File([body], 'picture.png', { type: 'image/png' }), purpose: 'vision' }),
  });
  const made = (await posted.json()) as { id: string; created_at: number };
  expect(posted.status).toBe(200);
  expect(made).toEqual({
    id: expect.stringMatching(/^file-/) as string,
    object: 'file',
    bytes: 2_500_000,
    created_at: made.created_at,
    expires_at: made.created_at + 7 * 86_400,
    filename: 'picture.png',
    purpose: 'vision',
    status: 'processed',
    media_type: 'image/png',
  });
  expect(await (await fetch(`${files}/${made.id}`)).json()).toEqual(made);
  const page = { object: 'list', data: [made], first_id: made.id, last_id: made.id, has_more: false };
  expect(await (await fetch(files)).json()).toEqual(page);
  const content = await fetch(`${files}/${made.id}/content`);
  expect([content.status, content.headers.get('content-type')]).toEqual([200, 'image/png']);
  expect(content.headers.get('content-length')).toBe('2500000');
  expect(content.headers.get('content-security-policy')).toContain('sandbox');
  expect(Buffer.from(await content.arrayBuffer()).equals(body)).toBe(true);
  const deleted = await fetch(`${files}/${made.id}`, { method: 'DELETE' });
  expect(await deleted.json()).toEqual({ id: made.id, object: 'file', deleted: true });
  for (const path of ['', '/content']) expect((await fetch(`${files}/${made.id}${path}`)).status).toBe(404);
  expect((await fetch(`${files}/${made.id}`, { method: 'DELETE' })).status).toBe(404);
  expect(kept().map(({ name }) => name)).toEqual([]);
});

test('the client of OpenAI uploads, lists, reads and deletes files, and reads the errors', async () => {
  const { url, kept } = await filesServer();
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const file = await toFile(Buffer.from('{"a":1}\n'), 'in.jsonl');
  const expires_after = { anchor: 'created_at', seconds: 3_600 } as const;
  const made = await client.files.create({ file, purpose: 'batch', expires_after });
  expect(made).toMatchObject({ filename: 'in.jsonl', purpose: 'batch', bytes: 8, expires_at: made.created_at + 3_600 });
  const others = await Promise.all([1, 2, 3].map(() => client.files.create({ file, purpose: 'user_data' })));
  const listed: string[] = [];
  for await (const one of client.files.list({ limit: 2 })) listed.push(one.id);
  expect(listed.toSorted()).toEqual([made, ...others].map(({ id }) => id).toSorted());
  expect(await client.files.retrieve(made.id)).toEqual(made);
  expect(await (await client.files.content(made.id)).text()).toBe('{"a":1}\n');
  expect(await client.files.delete(made.id)).toEqual({ id: made.id, object: 'file', deleted: true });
  await expect(client.files.retrieve(made.id)).rejects.toMatchObject({
    status: 404,
    code: 'not_found',
    type: 'invalid_request_error',
  });
  const wrong = client.files.create({ file, purpose: 'fine-tune' });
  await expect(wrong).rejects.toMatchObject({ status: 400, code: 'validation', param: 'purpose' });
  expect(kept().filter(({ name }) => !name.startsWith('.'))).toHaveLength(3);
});

const refused: readonly [what: string, body: FormData | string, status: number, says: string, param: string | null][] =
  [
    [
      'a purpose that there is not',
      form({ file: lines, purpose: 'jam' }),
      400,
      'purpose must be one of batch',
      'purpose',
    ],
    ['a purpose that only we have', form({ purpose: 'batch_output', file: lines }), 400, 'purpose must be', 'purpose'],
    ['no purpose', form({ file: lines }), 400, 'purpose must be one of', 'purpose'],
    ['no file', form({ purpose: 'batch' }), 400, 'file is missing', 'file'],
    ['a text as file', form({ file: 'text', purpose: 'batch' }), 400, 'file is missing', 'file'],
    ['two files', form({ file: [lines, lines], purpose: 'batch' }), 400, 'second file', 'file'],
    ['a file of another name', form({ purpose: 'batch', image: lines }), 400, 'name it file', 'image'],
    ['an unknown field', form({ purpose: 'batch', file: lines, color: 'red' }), 400, 'color is not a field', 'color'],
    [
      'an end that is too far',
      form({
        purpose: 'batch',
        file: lines,
        'expires_after[anchor]': 'created_at',
        'expires_after[seconds]': '99999999',
      }),
      400,
      'from 3600 to 2592000',
      'expires_after[seconds]',
    ],
    [
      'an end without its anchor',
      form({ purpose: 'batch', file: lines, 'expires_after[seconds]': '7200' }),
      400,
      'must be created_at',
      'expires_after[anchor]',
    ],
    ['JSON', '{"purpose":"batch"}', 415, 'multipart/form-data', null],
  ];

test.each(refused)('%s is refused in OpenAI`s shape, and nothing is kept', async (_, body, status, says, param) => {
  const { files, kept } = await filesServer();
  const headers = typeof body === 'string' ? { 'content-type': 'application/json' } : {};
  const answer = await fetch(files, { method: 'POST', body, headers });
  const { error } = (await answer.json()) as { error: { message: string; param: string | null; type: string } };
  expect([answer.status, error.message, error.param]).toEqual([status, expect.stringContaining(says), param]);
  expect(error.type).toBe('invalid_request_error');
  expect(kept().map(({ name }) => name)).toEqual([]);
});

const head = '--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nsome bytes';
const purpose = '--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n';

test.each([
  ['ends within the file', `${purpose}${head}`],
  ['ends before the last line', `${purpose}${head}\r\n`],
  ['is empty', ''],
  ['is no form', 'what is this?'],
  ['has two purposes', `${purpose}${purpose}${head}\r\n--x--\r\n`],
  ['has a purpose of kilobytes', `${purpose.replace('batch', 'b'.repeat(5_000))}${head}\r\n--x--\r\n`],
  ['has a hundred fields', `${head}\r\n${purpose.replace('purpose', 'p').repeat(100)}--x--\r\n`],
  ['reaches a prototype', `${purpose.replace('purpose', '__proto__')}${head}\r\n--x--\r\n`],
])('a form that %s is refused, and nothing is kept', async (_, body) => {
  const { files, kept } = await filesServer();
  const headers = { 'content-type': 'multipart/form-data; boundary=x' };
  const answer = await fetch(files, { method: 'POST', body, headers });
  expect([answer.status, await answer.json()]).toEqual([
    400,
    { error: expect.objectContaining({ code: 'validation' }) as object },
  ]);
  expect(kept().map(({ name }) => name)).toEqual([]);
});

test('a form without a boundary is refused', async () => {
  const { files } = await filesServer();
  const headers = { 'content-type': 'multipart/form-data' };
  const answer = await fetch(files, { method: 'POST', body: `${purpose}${head}\r\n--x--\r\n`, headers });
  expect([answer.status, ((await answer.json()) as { error: { code: string } }).error.code]).toEqual([
    400,
    'validation',
  ]);
});

test('a client that breaks off within a file leaves nothing, and the producer goes on', async () => {
  const { url, files, kept } = await filesServer();
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const start = `POST /v1/files HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: multipart/form-data; boundary=x\r\n`;
  socket.write(`${start}content-length: 9000000\r\n\r\n${purpose}${head}`);
  socket.write(Buffer.alloc(3_000_000));
  await expect.poll(() => kept().length).toBeGreaterThan(0);
  socket.destroy();
  await expect.poll(() => kept().length).toBe(0);
  expect((await fetch(files, { method: 'POST', body: form({ file: lines, purpose: 'batch' }) })).status).toBe(200);
});

test.each(['content-length', 'chunked'] as const)(
  'a file of 201 MB is 413, and the client reads that (%s)',
  async (how) => {
    const { url, kept } = await filesServer();
    const bytes = 201 * 1024 * 1024;
    const tail = '\r\n--x--\r\n';
    const length = purpose.length + head.length + bytes + tail.length;
    const answer = await new Promise<{ status: number; body: string }>((resolve, reject) => {
      const headers = {
        'content-type': 'multipart/form-data; boundary=x',
        ...(how === 'content-length' && { 'content-length': length }),
      };
      const sending = httpRequest(`${url}/v1/files`, { method: 'POST', headers }, (response) => {
        let body = '';
        response.setEncoding('utf8').on('data', (text: string) => (body += text));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body })).on('error', reject);
      });
      const state = { answered: false, sent: 0 };
      sending.on('error', (error) => state.answered || reject(error)).on('response', () => (state.answered = true));
      sending.write(purpose + head);
      const chunk = Buffer.alloc(1024 * 1024);
      const more = () => {
        for (; state.sent < bytes && !state.answered && !sending.destroyed; state.sent += chunk.length) {
          if (sending.writableNeedDrain) {
            sending.once('drain', more);
            return;
          }
          sending.write(chunk);
        }
        sending.end(tail);
      };
      more();
    });
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      413,
      { error: expect.objectContaining({ code: 'payload_too_large' }) as object },
    ]);
    expect(kept().map(({ name }) => name)).toEqual([]);
  },
  60_000,
);

test('where files are in Redis, more than 16 MiB are 413 and the answer says what to set', async () => {
  const { files } = await filesServer({ client: {} });
  const file = new File([Buffer.alloc(16 * 1024 * 1024 + 1)], 'large.bin');
  const answer = await fetch(files, { method: 'POST', body: form({ file, purpose: 'user_data' }) });
  const { error } = (await answer.json()) as { error: { message: string } };
  expect([answer.status, error.message]).toEqual([413, expect.stringContaining('set ARTIFACT_STORE')]);
  const fits = new File([Buffer.alloc(16 * 1024 * 1024)], 'fits.bin');
  expect((await fetch(files, { method: 'POST', body: form({ file: fits, purpose: 'user_data' }) })).status).toBe(200);
});

test.each([
  ['../../etc/passwd', 'passwd'],
  ['C:\\Users\\kim\\data.csv', 'data.csv'],
  ['naïve 表 📦.txt', 'naïve 表 📦.txt'],
  ['a%22; filename=evil.html', 'a%22; filename=evil.html'],
  ['x.txt%0D%0Aset-cookie: a=b', 'x.txt%0D%0Aset-cookie: a=b'],
  ['a\u202Egpj.exe', 'agpj.exe'],
  [`${'long'.repeat(2_500)}.csv`, `${'long'.repeat(63).slice(0, 251)}.csv`],
  ['..', 'file'],
  ["o'neill (1)*.txt", "o'neill (1)*.txt"],
])('a file named %j is kept and offered as %j', async (given, kept) => {
  const { files } = await filesServer();
  const part = `--x\r\ncontent-disposition: form-data; name="file"; filename="${given.replaceAll('\\', '\\\\')}"\r\n\r\nbytes`;
  const headers = { 'content-type': 'multipart/form-data; boundary=x' };
  const posted = await fetch(files, { method: 'POST', body: `${purpose}${part}\r\n--x--\r\n`, headers });
  const { id, filename } = (await posted.json()) as { id: string; filename: string };
  expect(filename).toBe(kept);
  const answer = await fetch(`${files}/${id}/content`);
  const disposition = answer.headers.get('content-disposition') ?? '';
  const [, plain = '', encoded = ''] =
    /^attachment; filename="([A-Za-z0-9._ -]*)"; filename\*=UTF-8''([\w!#$&+.^`|~%-]*)$/.exec(disposition) ?? [];
  expect(plain).not.toBe('');
  expect(decodeURIComponent(encoded)).toBe(kept);
  expect([answer.headers.get('set-cookie'), await answer.text()]).toEqual([null, 'bytes']);
});

test('programs upload any stream; names with NUL and half a character are whole afterwards', async () => {
  const { mill } = await filesServer();
  async function* stream() {
    yield Buffer.from('one ');
    yield new Uint8Array(Buffer.from('two'));
  }
  const about = { purpose: 'user_data', mediaType: 'text/plain' } as const;
  const made = await mill.files.upload(stream(), { ...about, filename: '../x\\y/a\0b\ud83d.txt' });
  expect(made).toMatchObject({ filename: 'a\uFFFDb\uFFFD.txt', bytes: 7, media_type: 'text/plain' });
  const texts: string[] = [];
  for (const body of ['text é', Buffer.from('bytes'), new Blob(['blob'])]) {
    const { id } = await mill.files.upload(body, { ...about, filename: 'x' });
    let text = '';
    for await (const chunk of mill.files.content(id)) text += Buffer.from(chunk).toString('utf8');
    texts.push(text);
    await mill.files.remove(id);
  }
  expect(texts).toEqual(['text é', 'bytes', 'blob']);
  expect(await mill.files.list()).toEqual({ data: [made], has_more: false });
  const lies = { filename: 'x', purpose: 'batch_output' } as never;
  await expect(mill.files.upload('x', lies)).rejects.toMatchObject({ code: 'validation' });
  await expect(mill.files.upload('x', { ...about, filename: 'x', mediaType: 'a\r\nb' })).rejects.toMatchObject({
    code: 'validation',
  });
  await expect(mill.files.list({ limit: 0 })).rejects.toMatchObject({ code: 'validation' });
  await expect(mill.files.get('file-x')).rejects.toMatchObject({ code: 'not_found' });
});

test.each([
  ['GET', ''],
  ['GET', '/content'],
  ['DELETE', ''],
])('another tenant gets for %s of a file%s what it gets for one that is not there', async (method, path) => {
  const { files } = await filesServer({ apiKeys: keys.join(',') });
  const as = (tenant: string) => ({ authorization: `Bearer ${keyOf(tenant)}` });
  const posted = await fetch(files, {
    method: 'POST',
    body: form({ file: lines, purpose: 'batch' }),
    headers: as('a'),
  });
  const { id } = (await posted.json()) as { id: string };
  const ask = async (tenant: string, of: string) => {
    const answer = await fetch(`${files}/${of}${path}`, { method, headers: as(tenant) });
    return [answer.status, (await answer.text()).replaceAll(of, 'ID')];
  };
  const unknown = 'file-01KAPN3YV8Q2T5W7X9Z0A1B2C3';
  expect(await ask('b', id)).toEqual(await ask('b', unknown));
  expect((await ask('b', id))[0]).toBe(404);
  expect(await (await fetch(files, { headers: as('b') })).json()).toMatchObject({ data: [] });
  expect((await ask('a', id))[0]).toBe(200);
  expect((await fetch(files)).status).toBe(401);
});
