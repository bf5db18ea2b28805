import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Millrace, type InputPart } from '../../src/producer/index.ts';
import { sha256 } from '../../src/shared/base/ids.ts';
import { call } from '../support/http.ts';
import { base64Of, fixtureFile, largePicture, startFileServer } from '../support/input-files.ts';
import { chat, startRawProvider, type RawRequest, type Reply } from '../support/raw-provider.ts';
import { responses } from '../support/raw-responses.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';
import { scratchFile } from '../worker/llm/scratch-file.ts';

const png = `data:image/png;base64,${base64Of('mill.png')}`;
const pdf = `data:application/pdf;base64,${base64Of('invoice.pdf')}`;
const notes = Buffer.from('The mill was built in 1742.');

interface WirePart {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** What the user's last message had, as one provider or the other was sent it. */
function userParts({ body }: RawRequest): readonly WirePart[] {
  const messages = body.messages ?? body.input;
  return messages.findLast(({ role }: { role?: string }) => role === 'user').content;
}

/** A model that speaks chat completions, and one that speaks responses. */
async function startModels(answer?: Reply) {
  const both = await Promise.all([
    startRawProvider(answer ?? chat(() => ({ text: 'A mill.' }))),
    startRawProvider(responses({ text: ['A mill.'] })),
  ]);
  onTestFinished(async () => void (await Promise.all(both.map((one) => one[Symbol.asyncDispose]()))));
  const [a, b] = both;
  const file = scratchFile(
    'providers.yaml',
    `- { id: a, kind: openai, baseUrl: "${a.url}", models: [{ model: blind, input: [text] }] }
- { id: b, kind: openai-responses, baseUrl: "${b.url}" }
`,
  );
  return { a, b, env: { MILLRACE_PROVIDERS: file, MODEL_ALLOWLIST: '*' } };
}

function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-store-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A client of the world's Redis that keeps files where its workers do. */
function clientOf({ fleet }: World, root: string, tenant?: string): Millrace {
  const { redisUrl: redis, prefix } = fleet;
  const options = { redis, prefix, artifactStore: `file:${root}`, modelAllowlist: ['*'], ...(tenant && { tenant }) };
  const mill = new Millrace(options);
  onTestFinished(() => mill.close());
  return mill;
}

test('an agent reads a picture, a PDF and a text by URL, inline and by file id, on both adapters', async () => {
  const { a, b, env } = await startModels();
  await using server = await startFileServer({
    '/mill.png': { type: 'image/png', body: fixtureFile('mill.png') },
    '/invoice.pdf': { type: 'application/pdf', body: fixtureFile('invoice.pdf') },
    '/notes.txt': { type: 'text/plain; charset=utf-8', body: notes },
  });
  const root = tempFolder();
  const store = { ARTIFACT_STORE: `file:${root}` };
  const world = await makeWorld({ producer: true, env: { ...env, ...store, EGRESS_ALLOWED_HOSTS: server.host } });
  const mill = clientOf(world, root);
  const upload = async (filename: string, body: Buffer) =>
    (await mill.files.upload(body, { filename, purpose: 'user_data' })).id;
  const ways: Readonly<Record<string, readonly InputPart[]>> = {
    url: [
      { type: 'image', url: `${server.url}/mill.png`, detail: 'high' },
      { type: 'file', url: `${server.url}/invoice.pdf` },
      { type: 'file', url: `${server.url}/notes.txt` },
    ],
    inline: [
      { type: 'image', url: png, name: 'mill.png', detail: 'high' },
      { type: 'file', data: base64Of('invoice.pdf'), mediaType: 'application/pdf', name: 'invoice.pdf' },
      { type: 'file', data: notes.toString('base64'), mediaType: 'text/plain', name: 'notes.txt' },
    ],
    fileId: [
      { type: 'image', fileId: await upload('mill.png', fixtureFile('mill.png')), detail: 'high' },
      { type: 'file', fileId: await upload('invoice.pdf', fixtureFile('invoice.pdf')) },
      { type: 'file', fileId: await upload('notes.txt', notes) },
    ],
  };
  const asText = expect.stringMatching(
    /\[File notes\.txt \(text\/plain, 27 bytes\)\]\n<<<UNTRUSTED[^\n]*\nThe mill was built in 1742\.\n<<<END/,
  );
  for (const [way, files] of Object.entries(ways)) {
    const input = [{ type: 'text', text: 'What is it?' }, ...files] as const;
    for (const [model, provider] of [['a/m', a] as const, ['b/m', b] as const]) {
      const asked = { agent: 'plain', input, overrides: { model } };
      const { status, body } = await call('POST', `${world.url}/v1/runs`, asked);
      expect([way, status, body.error]).toEqual([way, 202, undefined]);
      const result = await call('GET', `${world.url}/v1/runs/${body.runId}/result?wait=30`);
      expect(result.body).toMatchObject({ status: 'completed', text: 'A mill.' });
      const parts = userParts(provider.requests.at(-1) as RawRequest);
      const onChat = [
        { type: 'text', text: 'What is it?' },
        { type: 'image_url', image_url: { url: png, detail: 'high' } },
        { type: 'file', file: { filename: 'invoice.pdf', file_data: pdf } },
        { type: 'text', text: asText },
      ];
      const onResponses = [
        { type: 'input_text', text: 'What is it?' },
        { type: 'input_image', image_url: png, detail: 'high' },
        { type: 'input_file', filename: 'invoice.pdf', file_data: pdf },
        { type: 'input_text', text: asText },
      ];
      expect(parts).toEqual(provider === a ? onChat : onResponses);
      const shown = await call('GET', `${world.url}/v1/runs/${body.runId}`);
      expect(shown.body.files).toMatchObject([{ name: 'mill.png', kind: 'image' }, { kind: 'pdf' }, { kind: 'text' }]);
    }
  }
  // Each run fetches each of its files once.
  expect(server.asked).toHaveLength(6);
});

test('a run with 20 MB leaves less than one of them in Redis, also in its thread', async () => {
  const { a, env } = await startModels();
  const root = tempFolder();
  const world = await makeWorld({ env: { ...env, ARTIFACT_STORE: `file:${root}` } });
  const mill = clientOf(world, root);
  const picture = largePicture(20 * 1024 * 1024);
  const data = picture.toString('base64');
  const first = [{ type: 'image', data, mediaType: 'image/png', name: 'large.png' }] as const;
  const ask = async (input: string | readonly InputPart[]) => {
    const run = await mill.enqueue({
      agent: 'plain',
      input: typeof input === 'string' ? input : [...input],
      thread: 'large',
      overrides: { model: 'a/m' },
    });
    expect(await run.result()).toMatchObject({ status: 'completed' });
  };
  await ask(first);
  await ask('And the sky?');
  const urls = a.requests
    .flatMap(({ body }) => body.messages)
    .flatMap(({ content }) => (Array.isArray(content) ? content : []));
  expect(urls.map(({ image_url: image }) => image.url.length)).toEqual(
    Array.from({ length: 2 }, () => data.length + 22),
  );
  const redis = await testRedis('work', world.fleet.redisUrl);
  let bytes = 0;
  for (const key of await redis.keys(`*${world.fleet.prefix}*`)) bytes += (await redis.memory('USAGE', key)) ?? 0;
  expect(bytes).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(1024 * 1024);
  const { messages } = await mill.threads.messages('large');
  expect(messages[0]).toMatchObject({ role: 'user', files: [{ name: 'large.png', bytes: picture.length }] });
});

test('a run whose worker is killed goes on with the same bytes, which are not fetched again', async () => {
  let isHeld = false;
  const say = chat(() => ({ text: 'A mill.' }));
  const { a, env } = await startModels(async (response, request) => {
    if (isHeld) return await say(response, request);
    isHeld = true;
    await new Promise(() => {});
  });
  await using server = await startFileServer({ '/mill.png': { type: 'image/png', body: fixtureFile('mill.png') } });
  const world = await makeWorld({ env: { ...env, EGRESS_ALLOWED_HOSTS: server.host } });
  const input = [{ type: 'image' as const, url: `${server.url}/mill.png` }];
  const run = await world.mill.enqueue({ agent: 'plain', input, overrides: { model: 'a/m' } });
  await until('the model is asked', () => isHeld);
  await world.worker.kill();
  await world.addWorker();
  expect(await run.result()).toMatchObject({ status: 'completed', text: 'A mill.' });
  expect(a.requests.map(userParts)).toEqual(
    Array.from({ length: 2 }, () => [{ type: 'image_url', image_url: { url: png } }]),
  );
  expect(server.asked).toEqual(['/mill.png']);
});

test('a guessed file id of another tenant is not found, over HTTP, in a list of runs and in TypeScript', async () => {
  const { env } = await startModels();
  const keys = { a: 'key-of-tenant-a', b: 'key-of-tenant-b' };
  const root = tempFolder();
  const apiKeys = `${sha256(keys.a)}:a,${sha256(keys.b)}:b`;
  const store = { ARTIFACT_STORE: `file:${root}` };
  const world = await makeWorld({ producer: true, env: { ...env, ...store, MILLRACE_API_KEYS: apiKeys } });
  const { id: fileId } = await clientOf(world, root, 'a').files.upload(fixtureFile('mill.png'), {
    filename: 'mill.png',
    purpose: 'vision',
  });
  const asked = { agent: 'plain', input: [{ type: 'image' as const, fileId }], overrides: { model: 'b/m' } };
  const as = (who: keyof typeof keys) => ({ authorization: `Bearer ${keys[who]}` });
  const foreign = await call('POST', `${world.url}/v1/runs`, asked, as('b'));
  expect([foreign.status, foreign.body.error.code]).toEqual([404, 'not_found']);
  const listed = await call('POST', `${world.url}/v1/runs/bulk`, [asked], as('b'));
  expect(listed.body).toMatchObject([{ error: { code: 'not_found' } }]);
  await expect(clientOf(world, root, 'b').enqueue(asked)).rejects.toMatchObject({ code: 'not_found' });
  expect((await call('POST', `${world.url}/v1/runs`, asked, as('a'))).status).toBe(202);
});

test('what is wrong with a part is said with its place, and a model that does not read it is never asked', async () => {
  const { a, env } = await startModels();
  const world = await makeWorld({ producer: true, env });
  const post = async (input: unknown, more: object = {}) =>
    await call('POST', `${world.url}/v1/runs`, { agent: 'plain', input, ...more });
  const wrong = await post([{ type: 'image', data: base64Of('mill.gif'), mediaType: 'image/png' }]);
  expect([wrong.status, wrong.body.error.details]).toEqual([
    400,
    [{ path: 'input.0.data', message: 'is said to be image/png, and its bytes are image/gif' }],
  ]);
  const steered = await post([{ type: 'image', url: png }], { thread: 't', onBusy: 'steer' });
  expect(steered.body.error.message).toContain('input: cannot hold files with steer');
  const id = { executionId: 'once', overrides: { model: 'b/m' } };
  const [first, again, other] = [
    await post([{ type: 'image', url: png }], id),
    await post([{ type: 'image', url: png }], id),
    await post([{ type: 'image', url: `data:image/gif;base64,${base64Of('mill.gif')}` }], id),
  ];
  expect([first.status, again.body, other.body.error.code]).toEqual([
    202,
    { ...first.body, attached: true, status: again.body.status },
    'idempotency_conflict',
  ]);
  const blind = await post([{ type: 'file', url: pdf }], { overrides: { model: 'a/blind' } });
  const { body } = await call('GET', `${world.url}/v1/runs/${blind.body.runId}/result?wait=30`);
  expect(body.error).toMatchObject({ code: 'validation', message: expect.stringContaining('reads PDFs (a/blind)') });
  expect(a.requests).toEqual([]);
});
