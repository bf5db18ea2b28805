import { expect, test } from 'vitest';
import type { LlmPart, LlmRequest } from '../../../../src/worker/llm/provider.ts';
import {
  createSandboxPromptBackend,
  type SandboxPromptContext,
  type SandboxPromptOptions,
} from '../../../../src/worker/llm/backends/sandbox-prompt.ts';

const request: LlmRequest = {
  model: 'm',
  requestId: 'r',
  idempotencyKey: 'r',
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'first' },
    { role: 'assistant', parts: [{ type: 'text', text: 'yes' }] },
    { role: 'user', content: 'Fix the build.' },
  ],
};
const never = new AbortController().signal;

interface FakeBox {
  readonly session: string;
}

/** A box that gives one list of events per connection; an `Error` in it breaks the connection. */
function world(connections: readonly (readonly unknown[])[], options: Partial<SandboxPromptOptions<FakeBox>> = {}) {
  const wanted: (string | undefined)[] = [];
  const prompts: { message: string; context: SandboxPromptContext }[] = [];
  const provider = createSandboxPromptBackend<FakeBox>({
    getBox({ sessionId }) {
      wanted.push(sessionId);
      return { session: sessionId ?? 'box-7' };
    },
    getSessionId: (box) => box.session,
    async *streamPrompt(_box, message, context) {
      prompts.push({ message, context });
      for (const event of connections[prompts.length - 1] ?? []) {
        if (event instanceof Error) throw event;
        yield event;
      }
    },
    ...options,
  });
  const parts: LlmPart[] = [];
  const generate = (overrides: Partial<LlmRequest> = {}, signal = never) =>
    provider.generate({ ...request, ...overrides }, (part) => parts.push(part), signal);
  return { provider, parts, prompts, wanted, generate };
}

const text = (delta: string) => ({ type: 'text-delta', delta });
const final = { type: 'final' };

test('the newest message of the user goes to the box, with the instructions beside it', async () => {
  const { generate, prompts, wanted } = world([[text('ok'), final]]);
  await generate();
  expect(wanted).toEqual([undefined]);
  expect(prompts[0]).toMatchObject({
    message: 'Fix the build.',
    context: { system: 'Be brief.', messages: request.messages.slice(1), sessionId: undefined },
  });
});

test('the session of the box comes back and is gone on with', async () => {
  const { generate, wanted, prompts } = world([[final], [final]]);
  const { sessionToken } = await generate();
  expect(sessionToken).toBe('box-7');
  await generate({ sessionToken: 'box-9' });
  expect(wanted).toEqual([undefined, 'box-9']);
  expect(prompts[1]?.context.sessionId).toBe('box-9');
});

test('the tools of the box are emitted and are no tool calls of the answer', async () => {
  const { generate, parts } = world([
    [
      text('I look.'),
      { type: 'tool_call', id: 't1', name: 'bash', args: { cmd: 'make' } },
      { type: 'tool-result', toolCallId: 't1', output: { exit: 2 }, is_error: true },
      { type: 'toolCall', toolCallId: 't2', toolName: 'read', input: { file: 'a' } },
      { type: 'tool_result', id: 't2', content: 'text' },
      final,
    ],
  ]);
  const answer = await generate();
  expect(parts.slice(1)).toEqual(
    [
      { type: 'tool_relayed_call', id: 't1', name: 'bash', args: { cmd: 'make' } },
      { type: 'tool_relayed_result', id: 't1', output: '{"exit":2}', isError: false },
      { type: 'tool_relayed_call', id: 't2', name: 'read', args: { file: 'a' } },
      { type: 'tool_relayed_result', id: 't2', output: 'text', isError: false },
    ].map((part) => (part.id === 't1' && part.type === 'tool_relayed_result' ? { ...part, isError: true } : part)),
  );
  expect(answer).toMatchObject({ finishReason: 'stop', message: { parts: [{ type: 'text', text: 'I look.' }] } });
});

test('a final event with the whole text counts where no text was streamed, and only there', async () => {
  const message = {
    type: 'result',
    result: 'all done',
    usage: { input: 3, output: 2, cached: 0, cacheWrite: 0, total: 5 },
  };
  const whole = await world([[message]]).generate();
  expect(whole).toMatchObject({ message: { parts: [{ text: 'all done' }] }, usage: { total: 5 } });
  const streamed = await world([[text('streamed'), message]]).generate();
  expect(streamed.message.parts).toEqual([{ type: 'text', text: 'streamed' }]);
});

test('a stream that breaks off is resumed once, where it broke off, by the session', async () => {
  const { generate, parts, prompts, wanted } = world([
    [text('one'), { type: 'status' }, new Error('ECONNRESET')],
    [text(' two'), final],
  ]);
  const answer = await generate();
  expect(answer.message.parts).toEqual([{ type: 'text', text: 'one two' }]);
  expect(parts).toHaveLength(2);
  expect(wanted).toEqual([undefined, 'box-7']);
  expect(prompts[0]?.context).not.toHaveProperty('resumeAfter');
  expect(prompts[1]?.context).toMatchObject({ sessionId: 'box-7', resumeAfter: 2 });
});

test('a stream that just ends without a final event is resumed too', async () => {
  expect((await world([[text('one')], [final]]).generate()).message.parts).toEqual([{ type: 'text', text: 'one' }]);
});

test('a box that cannot be reached is asked for again only when there is a session', async () => {
  let asked = 0;
  const getBox = () => {
    asked++;
    throw new Error('no capacity');
  };
  const fresh = world([], { getBox });
  await expect(fresh.generate()).rejects.toMatchObject({
    kind: 'transport',
    retryable: true,
    message: 'the box of provider sandbox ended its stream without a final event; it has no session to reconnect to',
    cause: expect.objectContaining({ message: 'no capacity' }),
  });
  expect(asked).toBe(1);
  await expect(fresh.generate({ sessionToken: 's' })).rejects.toMatchObject({ kind: 'transport' });
  expect(asked).toBe(3);
});

test('a second break is a transport error', async () => {
  const { generate, prompts } = world([[text('one'), new Error('reset')], [text('two'), new Error('reset')], [final]]);
  await expect(generate()).rejects.toMatchObject({
    kind: 'transport',
    message: 'the box of provider sandbox ended its stream without a final event; also after one reconnect',
  });
  expect(prompts).toHaveLength(2);
});

test('a box that falls silent times out and is not asked again', async () => {
  const { generate, prompts } = world([], {
    async *streamPrompt() {
      yield text('one');
      await new Promise(() => {});
    },
    idleTimeoutMs: 50,
  });
  await expect(generate()).rejects.toMatchObject({ kind: 'timeout', retryable: true });
  expect(prompts).toHaveLength(0);
});

test('a box that never comes times out', async () => {
  const { generate } = world([], { getBox: () => new Promise(() => {}), startTimeoutMs: 50 });
  await expect(generate()).rejects.toMatchObject({ kind: 'timeout' });
});

test('events of other boxes are translated by the host, and what it drops is dropped', async () => {
  const { generate, parts } = world(
    [[{ kind: 'say', what: 'hi' }, { type: 'text', delta: 'noise' }, { kind: 'end' }]],
    {
      mapEvent(event) {
        const { kind, what } = event as { kind?: string; what?: string };
        if (kind === 'say') return { type: 'text', delta: what ?? '' };
        if (kind === 'end') return { type: 'final' };
        return null;
      },
    },
  );
  await generate();
  expect(parts).toEqual([{ type: 'text', delta: 'hi' }]);
});

test('unknown events are skipped', async () => {
  const odd = [null, 'text', 7, [], { type: 'text' }, { type: 'tool_call', id: '' }, { type: 'heartbeat' }];
  expect((await world([[...odd, text('ok'), final]]).generate()).message.parts).toEqual([{ type: 'text', text: 'ok' }]);
});

test('an agent with tools of its own is not served', () => {
  expect(world([]).provider.capabilities.tools).toBe(false);
});

test('after an abort the box is asked to stop and not reconnected to', async () => {
  const cancel = new AbortController();
  const stopped = Promise.withResolvers<void>();
  const { provider, wanted } = world([], {
    async *streamPrompt() {
      try {
        for (;;) yield text('on');
      } finally {
        stopped.resolve();
      }
    },
  });
  await expect(provider.generate(request, () => cancel.abort(), cancel.signal)).rejects.toMatchObject({
    kind: 'cancelled',
  });
  expect(wanted).toHaveLength(1);
  await stopped.promise;
});
