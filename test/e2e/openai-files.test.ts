import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI, { toFile } from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { base64Of, fixtureFile } from '../support/input-files.ts';
import { chat, startRawProvider } from '../support/raw-provider.ts';
import { responses } from '../support/raw-responses.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';
import { scratchFile } from '../worker/llm/scratch-file.ts';

const png = `data:image/png;base64,${base64Of('mill.png')}`;
const pdf = `data:application/pdf;base64,${base64Of('invoice.pdf')}`;

test('an agent reads a picture and a PDF that clients of OpenAI send, inline and as uploaded files', async () => {
  const root = mkdtempSync(join(tmpdir(), 'millrace-store-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  await using provider = await startRawProvider(chat(() => ({ text: 'A mill.' })));
  const env = { ARTIFACT_STORE: `file:${root}`, OPENAI_BASE_URL: provider.url };
  const { url } = await makeWorld({ producer: true, env });
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const shown = () => provider.requests.at(-1)?.body.messages.at(-1).content as unknown;
  const expected = [
    { type: 'text', text: 'What is it?' },
    { type: 'image_url', image_url: { url: png } },
    { type: 'file', file: { filename: 'invoice.pdf', file_data: pdf } },
  ];

  const completion = await client.chat.completions.create({
    model: 'plain',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is it?' },
          { type: 'image_url', image_url: { url: png } },
          { type: 'file', file: { file_data: pdf, filename: 'invoice.pdf' } },
        ],
      },
    ],
  });
  expect(completion.choices[0]?.message.content).toBe('A mill.');
  expect(shown()).toMatchObject(expected);

  const uploaded = await Promise.all(
    ['mill.png', 'invoice.pdf'].map(async (name) => {
      const file = await toFile(fixtureFile(name), name);
      return (await client.files.create({ file, purpose: 'user_data' })).id;
    }),
  );
  const [image = '', document = ''] = uploaded;
  const response = await client.responses.create({
    model: 'plain',
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is it?' },
          { type: 'input_image', file_id: image, detail: 'auto' },
          { type: 'input_file', file_id: document },
        ],
      },
    ],
  });
  expect(response.output_text).toBe('A mill.');
  expect(shown()).toMatchObject(expected);
});

const kinds = [
  {
    kind: 'openai',
    answer: chat(() => ({ text: 'A mill.' })),
    parts: [
      { type: 'text', text: 'What is it?' },
      { type: 'image_url', image_url: { url: png } },
      { type: 'file', file: { filename: 'invoice.pdf', file_data: pdf } },
    ],
  },
  {
    kind: 'openai-responses',
    answer: responses({ text: ['A mill.'] }),
    parts: [
      { type: 'input_text', text: 'What is it?' },
      { type: 'input_image', image_url: png },
      { type: 'input_file', filename: 'invoice.pdf', file_data: pdf },
    ],
  },
] as const;

test.each(kinds)('lines of a batch and a completion show a picture and a PDF to a model of $kind', async (asks) => {
  const root = mkdtempSync(join(tmpdir(), 'millrace-store-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  await using provider = await startRawProvider(asks.answer);
  const file = scratchFile('providers.yaml', `- { id: p, kind: ${asks.kind}, baseUrl: "${provider.url}" }\n`);
  const agents = join(root, 'agents');
  mkdirSync(agents);
  writeFileSync(join(agents, 'plain.yaml'), 'model: p/m\ninstructions: You answer briefly.\n');
  const env = { ARTIFACT_STORE: `file:${join(root, 'store')}`, MILLRACE_PROVIDERS: file, MILLRACE_AGENTS: agents };
  const { url } = await makeWorld({ producer: true, env });
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const messages = [
    {
      role: 'user' as const,
      content: [
        { type: 'text' as const, text: 'What is it?' },
        { type: 'image_url' as const, image_url: { url: png } },
        { type: 'file' as const, file: { file_data: pdf, filename: 'invoice.pdf' } },
      ],
    },
  ];
  const uploaded = async (name: string, body: Buffer | string, purpose: 'batch' | 'user_data') =>
    (await client.files.create({ file: await toFile(Buffer.from(body), name), purpose })).id;
  const image = await uploaded('mill.png', fixtureFile('mill.png'), 'user_data');
  const document = await uploaded('invoice.pdf', fixtureFile('invoice.pdf'), 'user_data');
  const input = [
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'What is it?' },
        { type: 'input_image', file_id: image, detail: 'auto' },
        { type: 'input_file', file_id: document },
      ],
    },
  ];
  const ours = [
    { type: 'text', text: 'What is it?' },
    { type: 'image', fileId: image },
    { type: 'file', fileId: document },
  ];
  const batchOf = async (endpoint: string, line: object) => {
    const lines = await uploaded('lines.jsonl', JSON.stringify(line), 'batch');
    const asked = { input_file_id: lines, endpoint, completion_window: '24h' } as const;
    const { id } = await client.batches.create(asked as Parameters<typeof client.batches.create>[0]);
    const ended = await until('the batch has ended', async () => {
      const batch = await client.batches.retrieve(id);
      return batch.status === 'completed' ? batch : undefined;
    });
    const wrong = ended.error_file_id && (await (await client.files.content(ended.error_file_id)).text());
    expect([wrong, ended.request_counts?.completed]).toEqual([undefined, 1]);
    return await (await client.files.content(ended.output_file_id ?? '')).text();
  };
  const wire = (endpoint: string, body: object) => ({ custom_id: 'a', method: 'POST', url: endpoint, body });
  const [chatUrl, responsesUrl] = ['/v1/chat/completions', '/v1/responses'];
  const ways = {
    completion: async () => JSON.stringify(await client.chat.completions.create({ model: 'plain', messages })),
    'line of completions': () => batchOf(chatUrl, wire(chatUrl, { model: 'plain', messages })),
    'line of responses': () => batchOf(responsesUrl, wire(responsesUrl, { model: 'plain', input })),
    'line of runs': () => batchOf('/v1/runs', { agent: 'plain', input: ours }),
  };
  for (const [way, ask] of Object.entries(ways)) {
    expect([way, await ask()]).toEqual([way, expect.stringContaining('A mill.')]);
    const { body } = provider.requests.at(-1) ?? {};
    const shown: unknown = (body.messages ?? body.input).at(-1).content;
    expect([way, shown]).toMatchObject([way, asks.parts]);
  }
});
