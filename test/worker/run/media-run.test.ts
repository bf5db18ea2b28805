import { expect, test } from 'vitest';
import { maxMediaBytes, type MediaRequest } from '../../../src/shared/contract/media.ts';
import { LlmError } from '../../../src/worker/llm/errors.ts';
import type { LlmProvider, MediaBytes, MediaCall, MediaPort } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { makeJobs } from './job-world.ts';

const png: MediaBytes = { bytes: Buffer.from('a picture'), mediaType: 'image/png' };
const mp4: MediaBytes = { bytes: Buffer.from('a film'), mediaType: 'video/mp4' };
const prompt = 'A lighthouse at dusk.';

interface Options {
  readonly generate?: MediaPort['generateMedia'];
  readonly poll?: MediaPort['pollMedia'];
  readonly provider?: Partial<LlmProvider>;
  readonly agent?: Partial<AgentSource>;
}

/** `pic` makes images for 4 cents, `film` video for 10 cents a second, `free` images at an unknown price. */
function makeWorld({ generate = async () => ({ media: [png] }), poll, provider, agent }: Options = {}) {
  const calls: MediaCall[] = [];
  const polls: string[] = [];
  const chats: string[] = [];
  const offers = {
    pic: { modality: 'image', unitMicrocents: 4_000_000 },
    film: { modality: 'video', unitMicrocents: 10_000_000 },
    free: { modality: 'image' },
  } as const;
  const painter: LlmProvider = {
    ...createScriptedProvider(({ model }) => {
      chats.push(model);
      return { text: 'A text.' };
    }),
    mediaOf: (model) => offers[model as keyof typeof offers],
    media: {
      generateMedia: async (call, signal) => {
        calls.push(call);
        return await generate(call, signal);
      },
      ...(poll && {
        pollMedia: async (jobId, signal) => {
          polls.push(jobId);
          return await poll(jobId, signal);
        },
      }),
    },
    ...provider,
  };
  return { calls, polls, chats, ...makeJobs(defineAgent({ id: 'painter', model: 'pic', ...agent }), painter) };
}

test('a model that makes images is called once, and the run ends with handles in place of bytes', async () => {
  const world = makeWorld({ agent: { fallbackModels: ['other'], instructions: 'Be brief.' } });
  const runId = world.submit({ input: prompt, media: { count: 2, size: '512x512' } });
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  expect(world.calls).toMatchObject([{ model: 'pic', modality: 'image', prompt, count: 2, size: '512x512' }]);
  expect(world.chats).toEqual([]);
  const record = await world.load(runId);
  const [part] = record?.result?.media ?? [];
  expect(part).toMatchObject({ type: 'image', mediaType: 'image/png', bytes: png.bytes.length });
  expect(record?.result).toEqual({
    text: '',
    finishReason: 'stop',
    media: [part],
    output: { text: '', media: [part] },
  });
  expect(world.ports.media.get('default', part?.handle.slice(-64) ?? '')?.bytes).toEqual(png.bytes);
  expect(world.eventsOf(runId, 'file.generated')).toMatchObject([{ handle: part?.handle, mediaType: 'image/png' }]);
  expect(world.eventsOf(runId, 'cost.updated')).toMatchObject([
    { inputTokens: 0, outputTokens: 0, costMicrocents: 8_000_000, cumulativeCostMicrocents: 8_000_000, priced: true },
  ]);
  expect(record?.costMicrocents).toBe(8_000_000);
  expect(JSON.stringify(world.ports.events(runId))).not.toContain(Buffer.from(png.bytes).toString('base64'));
});

test('a request gets no more pieces and no longer ones than its agent gives, also where it asks for no number', async () => {
  const limits = { maxMediaCount: 2, maxMediaSeconds: 3 };
  const world = makeWorld({ agent: { model: 'film', limits }, generate: async () => ({ media: [mp4] }) });
  for (const media of [{ count: 10, seconds: 600 }, undefined, { count: 1, seconds: 2 }])
    await world.deliver(world.submit({ input: prompt, ...(media && { media }) }));
  await world.deliver(world.submit({ input: prompt, media: { count: 10, seconds: 600 }, raise: true }));
  expect(world.calls.map(({ count, seconds }) => [count, seconds])).toEqual([
    [2, 3],
    [1, 3],
    [1, 2],
    [10, 600],
  ]);
});

test('a missing price counts as nothing, and shows as unpriced', async () => {
  const world = makeWorld({ agent: { model: 'free' } });
  const runId = world.submit({ input: prompt });
  await world.deliver(runId);
  expect(world.eventsOf(runId, 'cost.updated')).toMatchObject([{ costMicrocents: 0, priced: false }]);
});

test('a model that no map names is a chat model, and has no use for wishes about media', async () => {
  const world = makeWorld({ agent: { model: 'gpt-image-9' } });
  const chat = world.submit({ input: prompt });
  expect(await world.deliver(chat)).toEqual({ kind: 'ended', status: 'completed' });
  expect(world.chats).toEqual(['gpt-image-9']);
  const wish = world.submit({ input: prompt, media: { count: 2 } });
  await world.deliver(wish);
  expect((await world.load(wish))?.error?.code).toBe('validation');
  expect(world.chats).toHaveLength(1);
});

test('a refusal of the provider is final: no second call and no other model', async () => {
  const world = makeWorld({
    generate: () => Promise.reject(new LlmError('overloaded', 'scripted', 'away', { status: 503 })),
    agent: { fallbackModels: ['other'], retry: { max: 3 } },
  });
  const runId = world.submit({ input: prompt });
  expect(await world.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  expect([world.calls.length, world.chats.length]).toEqual([1, 0]);
  expect(await world.load(runId)).toMatchObject({
    error: { code: 'provider_unavailable', retryable: true },
    attempts: [{ outcome: 'failed', costMicrocents: 0 }],
  });
});

const badInputs: readonly [
  what: string,
  input: string,
  media: MediaRequest,
  options: Options,
  code: string,
  calls: number,
][] = [
  ['an empty prompt', ' ', {}, {}, 'validation', 0],
  ['two kinds of output', prompt, { modalities: ['image', 'video'] }, {}, 'validation', 0],
  ['a text beside the image', prompt, { modalities: ['text', 'image'] }, {}, 'validation', 0],
  ['another kind than the model makes', prompt, { modalities: ['audio'] }, {}, 'validation', 0],
  ['a length of a picture', prompt, { seconds: 3 }, {}, 'validation', 0],
  ['a provider that cannot make media', prompt, {}, { provider: { media: undefined as never } }, 'internal', 0],
  [
    'a provider that answers with neither media nor a job',
    prompt,
    {},
    { generate: async () => ({}) as never },
    'internal',
    1,
  ],
  [
    'a provider that answers with both',
    prompt,
    {},
    { generate: async () => ({ media: [png], jobId: 'j' }) as never },
    'internal',
    1,
  ],
  ['a job that cannot be asked for', prompt, {}, { generate: async () => ({ jobId: 'j' }) }, 'internal', 1],
  ['an answer of another kind', prompt, {}, { generate: async () => ({ media: [mp4] }) }, 'validation', 1],
  ['no picture at all', prompt, {}, { generate: async () => ({ media: [] }) }, 'provider_unavailable', 1],
  [
    'a file that is too large',
    prompt,
    {},
    { generate: async () => ({ media: [{ ...png, bytes: Buffer.alloc(maxMediaBytes + 1) }] }) },
    'validation',
    1,
  ],
];

test.each(badInputs)('%s ends the run with its code', async (_, input, media, options, code, calls) => {
  const world = makeWorld(options);
  const runId = world.submit({ input, media });
  expect(await world.deliver(runId)).toMatchObject({ kind: 'ended', status: 'failed' });
  const record = await world.load(runId);
  expect(record?.error?.code).toBe(code);
  expect(world.calls).toHaveLength(calls);
  // What was made is paid for, whether it is of use or not.
  expect(record?.attempts).toHaveLength(calls);
  expect(record?.costMicrocents).toBe(calls * 4_000_000);
});

test('money is asked for before the call: by pieces, not by tokens', async () => {
  const short = makeWorld();
  const runId = short.submit({ input: prompt, budget: { maxCostMicrocents: 7_999_999 }, media: { count: 2 } });
  await short.deliver(runId);
  expect((await short.load(runId))?.error?.code).toBe('budget_exceeded');
  expect(short.calls).toEqual([]);

  const enough = makeWorld();
  const paid = enough.submit({
    input: prompt,
    budget: { maxCostMicrocents: 8_000_000, unpriced: 'deny' },
    media: { count: 2 },
  });
  await enough.deliver(paid);
  expect((await enough.load(paid))?.status).toBe('completed');
  expect(enough.calls).toHaveLength(1);

  const unpriced = makeWorld({ agent: { model: 'free' } });
  const denied = unpriced.submit({ input: prompt, budget: { maxCostMicrocents: 8_000_000, unpriced: 'deny' } });
  await unpriced.deliver(denied);
  expect((await unpriced.load(denied))?.error?.code).toBe('budget_unpriced');
});

test('a media job is given once, and asked for after 5, 10, 20 and then every 30 seconds without a worker', async () => {
  let ready = false;
  const world = makeWorld({
    generate: async () => ({ jobId: 'job-1' }),
    poll: async () => (ready ? [mp4] : undefined),
    agent: { model: 'film' },
  });
  const runId = world.submit({ input: prompt, media: { seconds: 8 } });
  expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  expect(world.eventsOf(runId, 'media_job.submitted')).toMatchObject([{ jobId: 'job-1', model: 'film' }]);
  expect(await world.load(runId)).toMatchObject({
    status: 'suspended',
    pending: [{ kind: 'media', id: 'job-1' }],
    costMicrocents: 80_000_000,
  });
  for (const waitMs of [5_000, 10_000, 20_000, 30_000, 30_000]) {
    expect(await world.pass(waitMs - 1)).toEqual([]);
    expect(await world.pass(1)).toEqual([runId]);
    expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  }
  ready = true;
  await world.pass(30_000);
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'completed' });
  expect(world.calls).toMatchObject([{ seconds: 8 }]);
  expect(world.polls).toHaveLength(6);
  expect((await world.load(runId))?.result?.media).toMatchObject([{ type: 'video', mediaType: 'video/mp4' }]);
  expect(world.eventsOf(runId, 'cost.updated')).toHaveLength(1);
});

test('a worker that dies while it asks for a job leaves a run that polls again and never submits the job again', async () => {
  const asked = Promise.withResolvers<void>();
  let first = true;
  const world = makeWorld({
    generate: async () => ({ jobId: 'job-1' }),
    poll: async () => {
      if (!first) return [mp4];
      first = false;
      asked.resolve();
      return await new Promise(() => {});
    },
    agent: { model: 'film' },
  });
  const runId = world.submit({ input: prompt });
  await world.deliver(runId);
  await world.pass(5_000);
  void world.deliver(runId);
  await asked.promise;
  expect(await world.deliver(runId, 2)).toEqual({ kind: 'ended', status: 'completed' });
  expect([world.calls.length, world.polls.length]).toEqual([1, 2]);
});

test('a provider that is away while it is asked for a job is asked again; a job that failed ends the run', async () => {
  const answers = [
    new LlmError('overloaded', 'scripted', 'away'),
    new LlmError('content_filter', 'scripted', 'the job was refused'),
  ];
  const world = makeWorld({
    generate: async () => ({ jobId: 'job-1' }),
    poll: () => Promise.reject(answers.shift()),
    agent: { model: 'film' },
  });
  const runId = world.submit({ input: prompt });
  await world.deliver(runId);
  await world.pass(5_000);
  expect(await world.deliver(runId)).toEqual({ kind: 'suspended' });
  await world.pass(10_000);
  expect(await world.deliver(runId)).toMatchObject({ status: 'failed' });
  expect((await world.load(runId))?.error?.code).toBe('content_filter');
});

test('a job that takes more than half an hour ends the run as a fault of the provider', async () => {
  const world = makeWorld({
    generate: async () => ({ jobId: 'job-1' }),
    poll: async () => undefined,
    agent: { model: 'film' },
  });
  const runId = world.submit({ input: prompt });
  await world.deliver(runId);
  await world.pass(30 * 60_000);
  expect(await world.deliver(runId)).toMatchObject({ status: 'failed' });
  expect((await world.load(runId))?.error).toMatchObject({ code: 'provider_unavailable', retryable: true });
});

test('a node whose job failed gives a new one when it is tried again, and only then', async () => {
  const ended = [new LlmError('overloaded', 'scripted', 'the job broke', { retryable: false }), [mp4]];
  const world = makeWorld({
    generate: async () => ({ jobId: `job-${world.calls.length}` }),
    poll: async () => {
      const end = ended.shift();
      if (end instanceof LlmError) throw end;
      return end;
    },
    agent: { model: 'film' },
  });
  const nodeRetry = { max: 2, backoff_ms: 0 };
  const runId = world.submit({
    input: prompt,
    node: { type: 'agent', id: 'n', prompt_template: '{{ input }}', nodeRetry },
  });
  await world.deliver(runId);
  await world.pass(30 * 60_000);
  expect(await world.deliver(runId)).toMatchObject({ status: 'failed' });

  const late = world.submit({
    input: prompt,
    node: { type: 'agent', id: 'n', prompt_template: '{{ input }}', nodeRetry },
  });
  ended.unshift(undefined as never);
  await world.deliver(late);
  await world.pass(30 * 60_000);
  expect(await world.deliver(late)).toEqual({ kind: 'suspended' });
  await world.pass(5_000);
  expect(await world.deliver(late)).toEqual({ kind: 'ended', status: 'completed' });
  expect(world.polls).toEqual(['job-1', 'job-2', 'job-3']);
  expect(new Set(world.calls.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(3);
});

test('a run that is cancelled while it waits for a job ends as cancelled', async () => {
  const world = makeWorld({
    generate: async () => ({ jobId: 'job-1' }),
    poll: async () => undefined,
    agent: { model: 'film' },
  });
  const runId = world.submit({ input: prompt });
  await world.deliver(runId);
  world.ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
  await world.ports.waits.resume(runId, { summary: 'a cancel was asked for' });
  expect(await world.deliver(runId)).toEqual({ kind: 'ended', status: 'cancelled' });
  expect(world.polls).toEqual([]);
});

test('a node that makes media ends with their handles as its output', async () => {
  const world = makeWorld();
  const node = { type: 'agent', id: 'cover', prompt_template: 'Paint {{ input }}' };
  const runId = world.submit({ input: 'a whale', node });
  await world.deliver(runId);
  expect(world.calls).toMatchObject([{ prompt: 'Paint a whale' }]);
  expect(world.eventsOf(runId, 'node.completed')).toMatchObject([
    { output: { text: '', media: [{ type: 'image' }] }, tokensUsed: { input: 0, output: 0, model: 'pic' } },
  ]);
});
