import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI, { toFile } from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { base64Of, fixtureFile } from '../support/input-files.ts';
import { chat, startRawProvider } from '../support/raw-provider.ts';
import { makeWorld } from '../support/world.ts';

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
