import { describe, expect, test } from 'vitest';
import type { AttemptEnd, ChainCall, Permit, PlannedAttempt } from '../../../src/worker/llm/chain-call.ts';
import { LlmError } from '../../../src/worker/llm/errors.ts';
import { answer, entry, fake, usage, world, type Outcome } from './chain-world.ts';

const outcomes = (
  seen: readonly { attempt: { provider: string; model: string; outcome: string; skipReason?: string | undefined } }[],
) => seen.map(({ attempt }) => `${attempt.provider}/${attempt.model} ${attempt.skipReason ?? attempt.outcome}`);

/** Parts, then the end of the stream. */
const broken: Outcome = async (_request, onPart) => {
  onPart({ type: 'text', delta: 'half' });
  throw new LlmError('transport', 'a', 'terminated');
};

describe('models that are left alone for a while', () => {
  test('a 429 keeps later entries of the same provider from being tried, and the skip is emitted', async () => {
    const a = fake('a', ['rate_limit', 'ok']);
    const b = fake('b', ['ok']);
    const { run, seen } = world([entry(a.provider, 'm1', 1), entry(a.provider, 'm2', 1), entry(b.provider, 'm3', 1)]);
    expect((await run()).provider).toBe('b');
    expect(outcomes(seen)).toEqual(['a/m1 failed', 'a/m2 cooldown', 'b/m3 succeeded']);
  });

  test('a 429 is forgotten once the provider answers', async () => {
    const a = fake('a', ['rate_limit', 'ok', 'ok']);
    const { run, seen } = world([entry(a.provider, 'm', 2), entry(fake('b', ['ok']).provider)]);
    await run();
    await run({}, { step: 2 });
    expect(outcomes(seen)).toEqual(['a/m failed', 'a/m succeeded', 'a/m succeeded']);
  });

  test('later steps leave a model that was used up alone until the cooldown has ended, with one transition', async () => {
    const a = fake('a', ['overloaded', 'ok']);
    const b = fake('b', ['ok', 'ok', 'ok']);
    const { run, emitted, seen, clock } = world([entry(a.provider, 'm1', 1), entry(b.provider, 'm2', 1)], {
      cooldownMs: 1_000,
    });
    await run();
    await run({}, { step: 2 });
    expect(emitted.filter((fact) => 'reason' in (fact as object))).toHaveLength(1);
    await clock.sleep(1_000);
    expect((await run({}, { step: 3 })).provider).toBe('a');
    expect(outcomes(seen)).toEqual([
      'a/m1 failed',
      'b/m2 succeeded',
      'a/m1 cooldown',
      'b/m2 succeeded',
      'a/m1 succeeded',
    ]);
  });

  test('the only model is tried however it did before', async () => {
    const a = fake('a', ['rate_limit', 'ok']);
    const { run } = world([entry(a.provider, 'm', 1)]);
    await expect(run()).rejects.toMatchObject({ kind: 'rate_limit' });
    expect((await run()).provider).toBe('a');
  });

  test('a run that goes on elsewhere does not emit a transition again, and sends no reasoning of the other provider', async () => {
    const a = fake('a', ['overloaded']);
    const b = fake('b', ['ok']);
    const past = { lastProvider: 'b', serving: { provider: 'b', model: 'm2' } };
    const { run, emitted } = world([entry(a.provider, 'm1', 1), entry(b.provider, 'm2', 1)], {}, past);
    const reasoning = { type: 'reasoning' as const, text: 'hm', provider: 'a' };
    await run({
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', parts: [reasoning] },
      ],
    });
    expect(emitted).toEqual([]);
    expect(a.requests[0]?.messages).toHaveLength(1);
    expect(b.requests[0]?.messages).toHaveLength(1);
  });
});

describe('the plan of a step', () => {
  test('a model that is named twice is tried once', async () => {
    const a = fake('a', ['overloaded', 'overloaded']);
    const { run, seen } = world([entry(a.provider, 'm', 1), entry(a.provider, 'm', 1)]);
    await expect(run()).rejects.toMatchObject({ kind: 'overloaded' });
    expect(outcomes(seen)).toEqual(['a/m failed']);
  });

  test('a model for this step goes first, alone where it is forced', async () => {
    const a = fake('a', ['ok', 'ok']);
    const b = fake('b', ['overloaded', 'overloaded']);
    const { run, seen } = world([entry(a.provider, 'm1', 1), entry(b.provider, 'm2', 1)]);
    await run({}, { primary: { model: 'm2', provider: 'b' } });
    expect(outcomes(seen)).toEqual(['b/m2 failed', 'a/m1 succeeded']);
    await expect(run({}, { primary: { model: 'm2' }, only: true })).rejects.toMatchObject({ kind: 'overloaded' });
    expect(a.requests).toHaveLength(1);
  });

  test('a model outside the plan is looked up, and an unknown one is an error', async () => {
    const c = fake('c', ['ok']);
    const resolve = (model: string) => (model === 'big' ? entry(c.provider, 'big') : undefined);
    const { run } = world([entry(fake('a', []).provider)], { resolve });
    expect((await run({}, { primary: { model: 'big' } })).model).toBe('big');
    await expect(run({}, { primary: { model: 'huge' } })).rejects.toMatchObject({ code: 'internal' });
  });

  test('attempts of earlier segments count against the limit of the entry', async () => {
    const a = fake('a', ['overloaded', 'overloaded', 'overloaded']);
    const { run } = world([entry(a.provider, 'm', 3)]);
    const failedBefore = [
      { provider: 'a', model: 'm' },
      { provider: 'a', model: 'other' },
    ];
    await expect(run({}, { failedBefore })).rejects.toMatchObject({ kind: 'overloaded' });
    expect(a.requests).toHaveLength(2);
  });
});

describe('policies', () => {
  test('refused credentials move on only where that is wanted', async () => {
    const plan = () => [entry(fake('a', ['auth']).provider), entry(fake('b', ['ok']).provider)];
    const policy = { fallbackOnAuth: true };
    expect((await world(plan(), { policy }).run()).provider).toBe('b');
    await expect(world(plan()).run()).rejects.toMatchObject({ kind: 'auth' });
  });

  test('a stream that breaks off is made again only where that is wanted, and readers are asked to forget it first', async () => {
    const a = fake('a', [broken, 'ok']);
    const order: string[] = [];
    const call: Partial<ChainCall> = {
      onPart: () => order.push('part'),
      onReset: () => order.push('reset'),
    };
    const policy = { retryMidStream: true };
    expect((await world([entry(a.provider)], { policy }).run({}, call)).answer).toEqual(answer);
    expect(order).toEqual(['part', 'reset']);
    await expect(world([entry(fake('a', [broken, 'ok']).provider)]).run({}, call)).rejects.toMatchObject({
      kind: 'transport',
    });
  });
});

describe('the gate', () => {
  const ends: AttemptEnd[] = [];
  const open = (maxOutputTokens?: number) => async (): Promise<Permit> => ({
    kind: 'go',
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    settle: async (end) => void ends.push(end),
  });

  test('it bounds the answer and gets the outcome of every attempt', async () => {
    ends.length = 0;
    const a = fake('a', ['overloaded', 'ok']);
    await world([entry(a.provider)]).run({ maxOutputTokens: 900 }, { admit: open(100) });
    expect(a.requests.map((request) => request.maxOutputTokens)).toEqual([100, 100]);
    expect(ends).toMatchObject([
      { usage: undefined, costMicrocents: 0, error: { kind: 'overloaded' } },
      { usage, costMicrocents: 300, priced: true },
    ]);
  });

  test('it sees the request as it would be sent', async () => {
    const planned: PlannedAttempt[] = [];
    const admit = async (attempt: PlannedAttempt) => {
      planned.push(attempt);
      return await open()();
    };
    const a = fake('a', ['ok']);
    await world([entry(a.provider, 'm')]).run({ maxOutputTokens: 7 }, { admit, step: 3 });
    expect(planned).toMatchObject([{ step: 3, attemptNumber: 1, request: { model: 'm', maxOutputTokens: 7 } }]);
  });

  test('a model that it does not let through counts as failed: the next one takes over', async () => {
    const a = fake('a', []);
    const b = fake('b', ['ok']);
    const admit = async ({ provider }: PlannedAttempt): Promise<Permit> =>
      provider.id === 'a' ? { kind: 'skip', reason: 'circuit_open', retryAfterMs: 5 } : await open()();
    const { run, seen, emitted } = world([entry(a.provider, 'm1'), entry(b.provider, 'm2')]);
    expect((await run({}, { admit })).provider).toBe('b');
    expect(outcomes(seen)).toEqual(['a/m1 circuit_open', 'b/m2 succeeded']);
    expect(emitted).toMatchObject([{ from: 'm1', to: 'm2', reason: 'capacity' }]);
    expect(a.requests).toEqual([]);
  });

  test('when it lets nothing through, the error says when to come back', async () => {
    const admit = async (): Promise<Permit> => ({ kind: 'skip', reason: 'circuit_open', retryAfterMs: 5_000 });
    await expect(world([entry(fake('a', []).provider)]).run({}, { admit })).rejects.toMatchObject({
      kind: 'overloaded',
      retryable: true,
      code: 'circuit_open',
      retryAfterMs: 5_000,
    });
  });

  test('it, and not the chain, waits out what a 429 asks for', async () => {
    const limited: Outcome = async () => {
      throw new LlmError('rate_limit', 'a', 'slow down', { retryAfterMs: 20_000 });
    };
    const gated = world([entry(fake('a', [limited, 'ok']).provider)]);
    await gated.run({}, { admit: open() });
    expect(gated.clock.sleeps).toEqual([250]);
    const bare = world([entry(fake('a', [limited, 'ok']).provider)]);
    await bare.run();
    expect(bare.clock.sleeps).toEqual([20_000]);
  });
});
