import { describe, expect, test } from 'vitest';
import type { AssistantPart } from '../../../src/shared/contract/message.ts';
import type { Usage } from '../../../src/shared/contract/money.ts';
import { LlmError } from '../../../src/worker/llm/errors.ts';
import type { LlmAnswer, LlmPart } from '../../../src/worker/llm/provider.ts';
import { deep } from '../../support/odd.ts';
import { answer, entry, fake, usage, world } from './chain-world.ts';

const high = '\ud83d';
const low = '\ude00';

/** What the rest of a worker gets of an answer of any provider. */
async function through(given: Partial<LlmAnswer>, parts: readonly LlmPart[] = []) {
  const { provider } = fake('a', [
    async (_, onPart) => {
      for (const part of parts) onPart(part);
      return { ...answer, ...given };
    },
  ]);
  const { run, emitted } = world([entry(provider)]);
  const result = await run();
  return { ...result, emitted: emitted.map((one) => (one as { part: LlmPart }).part) };
}

const message = (...parts: AssistantPart[]): LlmAnswer['message'] => ({ role: 'assistant', parts });

describe('an answer of a provider', () => {
  test('has whole characters and no NUL, in its texts, calls and proofs', async () => {
    const result = await through({
      message: message(
        { type: 'reasoning', text: `r${low}`, provider: 'a', meta: [{ [`k${high}`]: `\0${high}` }] },
        { type: 'text', text: `half ${high}` },
        { type: 'tool_call', id: `c${low}`, name: `n${high}`, args: `{"a":"${high}"}` },
      ),
      providerRequestId: `id${high}`,
    });
    expect(result.answer.message.parts).toEqual([
      { type: 'reasoning', text: 'r\ufffd', provider: 'a', meta: [{ 'k\ufffd': '\ufffd\ufffd' }] },
      { type: 'text', text: 'half \ufffd' },
      { type: 'tool_call', id: 'c\ufffd', name: 'n\ufffd', args: '{"a":"\ufffd"}' },
    ]);
    expect(result.answer.providerRequestId).toBe('id\ufffd');
  });

  test('keeps the ids that gateways want back, and has a short one for what is no id', async () => {
    const long = `call__thought__${'x'.repeat(4_000)}`;
    const absurd = 'y'.repeat(100_000);
    const calls = [long, absurd].map((id) => ({ type: 'tool_call', id, name: 'n'.repeat(300), args: '{}' }) as const);
    const start = { type: 'tool_call_start', id: absurd, name: 'n' } as const;
    const { answer: clean, emitted } = await through({ message: message(...calls) }, [start]);
    const [kept, short] = clean.message.parts as Extract<AssistantPart, { type: 'tool_call' }>[];
    expect(kept).toMatchObject({ id: long, name: 'n'.repeat(256) });
    expect(short?.id.length).toBeLessThan(100);
    expect(emitted).toEqual([{ ...start, id: short?.id }]);
  });

  test('has no proof of reasoning that is nested without end', async () => {
    const meta: unknown = JSON.parse(deep(100_000));
    const { answer: clean } = await through({ message: message({ type: 'reasoning', text: '', provider: 'a', meta }) });
    expect(JSON.stringify(clean).length).toBeLessThan(1_000);
  });

  const nonsense: readonly Partial<Usage>[] = [
    { input: 1e308 },
    { output: Number.NaN },
    { cached: -1 },
    { total: 2 ** 53 },
    { input: 0.5 },
  ];
  test.each(nonsense)('that says to have used %o counts as one that reported nothing', async (odd) => {
    const { attempts, answer: clean } = await through({ usage: { ...usage, ...odd } });
    expect(clean.usage).toBeUndefined();
    expect(attempts).toMatchObject([{ costMicrocents: 0 }]);
  });

  test('that failed has a message within bounds, in whole characters', () => {
    expect(new LlmError('unknown', 'a', `no\0 ${high}`).message).toBe('no\ufffd \ufffd');
    expect(new LlmError('unknown', 'a', 'x'.repeat(1e6)).message.length).toBeLessThan(5_000);
  });
});

describe('the parts of an answer', () => {
  test('never break a character, wherever the stream did', async () => {
    const parts: LlmPart[] = [
      { type: 'text', delta: `a${high}` },
      { type: 'reasoning', delta: high },
      { type: 'text', delta: `${low}b` },
      { type: 'tool_call_delta', id: 'c', delta: `"${high}` },
      { type: 'tool_call_delta', id: 'c', delta: `${low}"` },
      { type: 'text', delta: high },
      { type: 'text', delta: 'c' },
    ];
    const { emitted } = await through({}, parts);
    expect(emitted).toEqual([
      { type: 'text', delta: 'a' },
      { type: 'text', delta: '😀b' },
      { type: 'tool_call_delta', id: 'c', delta: '"' },
      { type: 'tool_call_delta', id: 'c', delta: '😀"' },
      { type: 'text', delta: '\ufffdc' },
      { type: 'reasoning', delta: '\ufffd' },
    ]);
  });
});
