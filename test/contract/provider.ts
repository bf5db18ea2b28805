import { describe, expect, test } from 'vitest';
import { type LlmErrorKind, LlmError } from '../../src/worker/llm/errors.ts';
import type { LlmAnswer, LlmPart, LlmProvider, LlmRequest } from '../../src/worker/llm/provider.ts';

/** What a model answers, in no wire format. */
export interface Saying {
  readonly reasoning?: readonly string[];
  readonly text?: readonly string[];
  /** Each with its arguments in pieces. */
  readonly calls?: readonly { readonly id: string; readonly name: string; readonly args: readonly string[] }[];
  /** The pieces of the calls take turns. */
  readonly interleaved?: boolean;
  readonly usage?: SaidUsage | 'none' | 'twice';
  readonly finish?: 'stop' | 'length' | 'content_filter';
  /** What happens instead of the end. `eof`: nothing more, in good order. `hang`: silence. */
  readonly breaks?: 'eof' | 'reset' | 'hang' | 'garbage' | 'error';
}

/** Tokens as a provider counts them: the prompt includes the cached ones. */
export interface SaidUsage {
  readonly prompt: number;
  readonly output: number;
  readonly cached?: number;
  readonly cacheWrite?: number;
}

export const usualUsage: SaidUsage = { prompt: 100, output: 20 };

export interface ProviderKind {
  readonly name: string;
  /** What this kind of provider cannot say. */
  readonly without: ReadonlySet<
    'parts' | 'calls' | 'interleaved' | 'usage forms' | 'garbage' | 'reset' | 'eof' | 'content_filter'
  >;
  /** A provider that says this at every call. Its timeouts are long. */
  start(saying: Saying): Promise<LlmProvider>;
}

const request: LlmRequest = {
  model: 'm',
  requestId: 'run:step:1',
  idempotencyKey: 'run:step:1',
  messages: [{ role: 'user', content: 'hi' }],
};
const never = new AbortController().signal;

interface Answered {
  readonly parts: readonly LlmPart[];
  readonly answer?: LlmAnswer;
  readonly error?: unknown;
}

async function ask(
  provider: LlmProvider,
  signal = never,
  onPart: (part: LlmPart) => void = () => {},
): Promise<Answered> {
  const parts: LlmPart[] = [];
  const call = provider.generate(
    request,
    (part) => {
      parts.push(part);
      onPart(part);
    },
    signal,
  );
  return await call.then(
    (answer) => ({ parts, answer }),
    (error: unknown) => ({ parts, error }),
  );
}

function joined(parts: readonly LlmPart[], type: 'text' | 'reasoning'): string {
  return parts.map((part) => (part.type === type ? part.delta : '')).join('');
}

/** The promises of the port, which every adapter keeps. */
export function providerContract(kind: ProviderKind): void {
  const can = (what: Parameters<typeof kind.without.has>[0]) => !kind.without.has(what);

  describe(`provider: ${kind.name}`, () => {
    test('text is passed on part by part, and the answer is the whole of it', async () => {
      const { parts, answer } = await ask(await kind.start({ text: ['one', ' two', ' three'] }));
      expect(parts.every(({ type }) => type === 'text')).toBe(true);
      expect(parts.length).toBeGreaterThanOrEqual(can('parts') ? 3 : 1);
      expect(joined(parts, 'text')).toBe('one two three');
      expect(answer).toMatchObject({
        message: { role: 'assistant', parts: [{ type: 'text', text: 'one two three' }] },
        finishReason: 'stop',
        incompleteToolCalls: [],
      });
    });

    test('reasoning is passed on as reasoning, stands first in the answer and names its provider', async () => {
      const provider = await kind.start({ reasoning: ['think', ' hard'], text: ['done'] });
      const { parts, answer } = await ask(provider);
      expect(joined(parts, 'reasoning')).toBe('think hard');
      expect(answer?.message.parts).toMatchObject([
        { type: 'reasoning', text: 'think hard', provider: provider.id },
        { type: 'text', text: 'done' },
      ]);
    });

    test.runIf(can('calls'))('a tool call in pieces is whole in the answer', async () => {
      const calls = [{ id: 'c1', name: 'find', args: ['{"or', 'der":', '"7"}'] }];
      const { parts, answer } = await ask(await kind.start({ text: ['I look.'], calls }));
      expect(parts.filter(({ type }) => type === 'tool_call_start')).toEqual([
        { type: 'tool_call_start', id: 'c1', name: 'find' },
      ]);
      expect(parts.map((part) => (part.type === 'tool_call_delta' ? part.delta : '')).join('')).toBe('{"order":"7"}');
      expect(answer?.message.parts).toEqual([
        { type: 'text', text: 'I look.' },
        { type: 'tool_call', id: 'c1', name: 'find', args: '{"order":"7"}' },
      ]);
      expect(answer?.finishReason).toBe('tool_use');
    });

    test.runIf(can('interleaved'))('two calls whose pieces take turns are kept apart', async () => {
      const calls = [
        { id: 'a', name: 'find', args: ['{"x"', ':1', '}'] },
        { id: 'b', name: 'buy', args: ['{"y"', ':2', ',"z":3}'] },
      ];
      const { answer } = await ask(await kind.start({ calls, interleaved: true }));
      expect(answer?.message.parts).toEqual([
        { type: 'tool_call', id: 'a', name: 'find', args: '{"x":1}' },
        { type: 'tool_call', id: 'b', name: 'buy', args: '{"y":2,"z":3}' },
      ]);
    });

    test.runIf(can('calls'))('calls that repeat an id get ids of their own', async () => {
      const call = { id: 'same', name: 'find', args: ['{}'] };
      const { answer } = await ask(await kind.start({ calls: [call, call] }));
      const ids = answer?.message.parts.map((part) => (part.type === 'tool_call' ? part.id : ''));
      expect(new Set(ids).size).toBe(2);
    });

    test.runIf(can('calls'))(
      'a call that the length limit cut off is marked as incomplete and not in the answer',
      async () => {
        const calls = [
          { id: 'a', name: 'find', args: ['{"x":1}'] },
          { id: 'b', name: 'buy', args: ['{"amount": 1'] },
        ];
        const { answer } = await ask(await kind.start({ calls, finish: 'length' }));
        expect(answer?.incompleteToolCalls).toEqual([{ id: 'b', name: 'buy' }]);
        expect(answer?.message.parts).toEqual([{ type: 'tool_call', id: 'a', name: 'find', args: '{"x":1}' }]);
      },
    );

    test('an answer that the length limit cut off says so', async () => {
      const { answer } = await ask(await kind.start({ text: ['half'], finish: 'length' }));
      expect(answer).toMatchObject({ finishReason: 'length', message: { parts: [{ text: 'half' }] } });
    });

    test.runIf(can('content_filter'))('refused content is an error of its own', async () => {
      const { error } = await ask(await kind.start({ text: ['I wi'], finish: 'content_filter' }));
      expect(error).toMatchObject({ kind: 'content_filter', retryable: false, provider: expect.any(String) });
    });

    test.runIf(can('usage forms'))('cached tokens are counted apart from the others', async () => {
      const usage = { prompt: 100, output: 7, cached: 80, cacheWrite: 15 };
      const { answer } = await ask(await kind.start({ text: ['hi'], usage }));
      expect(answer?.usage).toEqual({ input: 5, output: 7, cached: 80, cacheWrite: 15, total: 107 });
    });

    test.runIf(can('usage forms'))('usage that is sent twice counts once', async () => {
      const { answer } = await ask(await kind.start({ text: ['hi'], usage: 'twice' }));
      expect(answer?.usage).toEqual({ input: 100, output: 20, cached: 0, cacheWrite: 0, total: 120 });
    });

    test.runIf(can('usage forms'))('usage that is not sent is absent, not zero', async () => {
      const { answer } = await ask(await kind.start({ text: ['hi'], usage: 'none' }));
      expect(answer).toBeDefined();
      expect(answer).not.toHaveProperty('usage');
    });

    test('a call that is cancelled before it begins gives no parts', async () => {
      const { parts, error } = await ask(await kind.start({ text: ['hi'] }), AbortSignal.abort());
      expect(error).toMatchObject({ kind: 'cancelled', retryable: false });
      expect(parts).toEqual([]);
    });

    test('a call that is cancelled while the provider is silent ends at once', async () => {
      const cancel = new AbortController();
      const provider = await kind.start({ text: ['hi'], breaks: 'hang' });
      const begun = Promise.withResolvers<void>();
      const asked = ask(provider, cancel.signal, () => begun.resolve());
      if (can('parts')) await begun.promise;
      // By then the provider waits for what does not come.
      await new Promise(setImmediate);
      cancel.abort();
      expect((await asked).error).toMatchObject({ kind: 'cancelled' });
    });

    test('a call that is cancelled with its last part is cancelled, although the answer came', async () => {
      const cancel = new AbortController();
      const { error } = await ask(await kind.start({ text: ['hi'] }), cancel.signal, () => cancel.abort());
      expect(error).toMatchObject({ kind: 'cancelled' });
    });

    const breaks = (['eof', 'reset', 'garbage'] as const).filter(can);
    test.runIf(breaks.length > 0).each(breaks)(
      'a stream that ends in %s is a transport error, never an answer',
      async (how) => {
        const { parts, error } = await ask(await kind.start({ text: ['Hel'], breaks: how }));
        expect(error).toBeInstanceOf(LlmError);
        expect(error).toMatchObject({ kind: 'transport' satisfies LlmErrorKind, retryable: true });
        expect(joined(parts, 'text')).toBe('Hel');
      },
    );

    test('an error in place of the end fails the call', async () => {
      const { error } = await ask(await kind.start({ text: ['Hel'], breaks: 'error' }));
      expect(error).toMatchObject({ kind: 'overloaded', retryable: true });
    });

    test('what the consumer of parts throws comes out as it is, once', async () => {
      const mistake = new Error('no room');
      let calls = 0;
      const provider = await kind.start({ text: ['a', 'b'] });
      const { error } = await ask(provider, never, () => {
        calls++;
        throw mistake;
      });
      expect(error).toBe(mistake);
      expect(calls).toBe(1);
    });

    test('calls do not disturb each other', async () => {
      const provider = await kind.start({ text: ['one', ' two'] });
      const answers = await Promise.all(Array.from({ length: 5 }, () => ask(provider)));
      expect(answers.map(({ parts }) => joined(parts, 'text'))).toEqual(Array(5).fill('one two'));
    });
  });
}
