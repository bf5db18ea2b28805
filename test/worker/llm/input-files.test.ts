import { expect, test } from 'vitest';
import type { InputFile } from '../../../src/shared/contract/input-parts.ts';
import { handleOf } from '../../../src/shared/contract/media.ts';
import { withoutReasoning } from '../../../src/shared/contract/message.ts';
import { promptTokensOf } from '../../../src/worker/llm/cost.ts';
import { fileTokensOf } from '../../../src/worker/llm/input-files.ts';
import { chatBody } from '../../../src/worker/llm/openai/chat.ts';
import { userParts, wireFilesOf } from '../../../src/worker/llm/openai/user-parts.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { withinSensitivity } from '../../../src/worker/llm/candidate.ts';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { createProviders } from '../../../src/worker/llm/backends/providers.ts';
import { scratchFile } from './scratch-file.ts';

const source = { from: 'media', handle: handleOf('0'.repeat(64)) } as const;
const file = (about: Partial<InputFile> = {}): InputFile => ({
  kind: 'image',
  name: 'a.png',
  mediaType: 'image/png',
  at: 0,
  source,
  ...about,
});
const signal = new AbortController().signal;

test.each<[string, Partial<InputFile>, number]>([
  ['a small image', { width: 48, height: 32 }, 255],
  ['an image that is scaled to 768 pixels', { width: 3_000, height: 2_000 }, 85 + 170 * 3 * 2],
  ['a very wide image', { width: 8_000, height: 500 }, 85 + 170 * 4],
  ['an image of which the model sees little', { detail: 'low', width: 3_000, height: 2_000 }, 85],
  ['an image that does not say how large it is', {}, 1_445],
  ['a PDF by its pages', { kind: 'pdf', pages: 3, bytes: 9_000_000 }, 4_500],
  ['a PDF by its bytes', { kind: 'pdf', bytes: 250_000 }, 4_500],
  ['a document behind a URL', { kind: 'file', source: { from: 'url', url: 'https://x.test/' } }, 15_000],
])('%s has its tokens in every estimate', (_, about, tokens) => {
  expect(fileTokensOf(file(about))).toBe(tokens);
  const without = promptTokensOf({ messages: [{ role: 'user', content: 'Hi' }] });
  expect(promptTokensOf({ messages: [{ role: 'user', content: 'Hi', files: [file(about)] }] })).toBe(without + tokens);
});

const request = (readFile: LlmRequest['readFile'], ...files: InputFile[]): LlmRequest => ({
  model: 'm',
  requestId: 'r',
  idempotencyKey: 'r',
  messages: [{ role: 'user', content: 'One two', files }],
  ...(readFile && { readFile }),
});

test('parts of a message keep their order, and a file that has gone meanwhile leaves a note', async () => {
  const [first, second] = [file({ at: 3 }), file({ name: 'scan', kind: 'pdf', mediaType: 'application/pdf', at: 7 })];
  const asked = request(async (one) => (one === first ? Buffer.from('bytes') : undefined), first, second);
  const read = await wireFilesOf(asked, 'p', signal);
  expect(userParts(asked.messages[0] as never, read)).toEqual([
    { type: 'text', text: 'One' },
    { type: 'image', url: 'data:image/png;base64,Ynl0ZXM=', detail: undefined },
    { type: 'text', text: ' two' },
    { type: 'text', text: '[File scan (application/pdf): file expired, it cannot be read any more.]' },
  ]);
});

test('a PDF has a name that ends like one, which providers want', async () => {
  const scan = file({ name: 'scan', kind: 'pdf', mediaType: 'application/pdf', at: 7 });
  const asked = request(async () => Buffer.from('x'), scan);
  const files = await wireFilesOf(asked, 'p', signal);
  const { messages } = chatBody(asked, { provider: 'p', maxTokensField: 'max_tokens', files });
  expect(messages).toEqual([
    {
      role: 'user',
      content: [
        { type: 'text', text: 'One two' },
        { type: 'file', file: { filename: 'scan.pdf', file_data: 'data:application/pdf;base64,eA==' } },
      ],
    },
  ]);
});

test('files that cannot be read for now are a failure to try again, and none of the call', async () => {
  const broken = request(async () => await Promise.reject(new Error('the folder is away')), file());
  await expect(wireFilesOf(broken, 'p', signal)).rejects.toMatchObject({ kind: 'overloaded', retryable: true });
  await expect(wireFilesOf(request(undefined, file()), 'p', signal)).rejects.toMatchObject({ kind: 'bad_request' });
});

test('a message that a provider may not see keeps its files to itself', () => {
  const [shown] = withinSensitivity([{ role: 'user', content: 'x', sensitivity: 'secret', files: [file()] }]);
  expect(shown).not.toHaveProperty('files');
});

test('what a model reads is what the providers file says of it, of its provider, or everything', () => {
  const file = scratchFile(
    'providers.yaml',
    `- { id: a, kind: openai, baseUrl: "http://127.0.0.1:1/v1", capabilities: { input: [text] }, models: [{ model: seer, input: [text, image] }] }
- { id: b, kind: openai-responses, baseUrl: "http://127.0.0.1:1/v1" }
`,
  );
  const settings = { REDIS_URL: 'redis://127.0.0.1:1', MILLRACE_PROVIDERS: file };
  const providers = createProviders(parseConfig(settings), () => undefined);
  const reads = (name: string) => {
    const { provider, model } = providers.providerFor(name) ?? {};
    return provider?.inputOf?.(model ?? '');
  };
  expect([reads('a/seer'), reads('a/other'), reads('b/any')]).toEqual([
    ['text', 'image'],
    ['text'],
    ['text', 'image', 'pdf'],
  ]);
});

test('two messages of the user that become one keep their files at their places', () => {
  const thought = { role: 'assistant' as const, parts: [{ type: 'reasoning' as const, text: 'hm', provider: 'p' }] };
  const [merged] = withoutReasoning(
    [
      { role: 'user', content: 'First', files: [file({ at: 5 })] },
      thought,
      { role: 'user', content: 'Second', files: [file({ at: 2, name: 'b.png' })] },
    ],
    undefined,
  );
  expect(merged).toMatchObject({
    content: 'First\n\nSecond',
    files: [
      { name: 'a.png', at: 5 },
      { name: 'b.png', at: 9 },
    ],
  });
});
