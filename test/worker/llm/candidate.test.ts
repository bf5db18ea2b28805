import { describe, expect, test } from 'vitest';
import type { Sensitivity } from '../../../src/shared/contract/message.ts';
import type { ChainRequest } from '../../../src/worker/llm/candidate.ts';
import { entry, fake, world } from './chain-world.ts';

describe('what each candidate is asked', () => {
  test('the key of the step is one for all, and candidates other than the first are marked', async () => {
    const one = fake('one', ['overloaded', 'overloaded']);
    const two = fake('two', ['ok']);
    await world([entry(one.provider, 'm', 2), entry(two.provider, 'm')]).run();
    const asked = [...one.requests, ...two.requests];
    expect(asked.map(({ idempotencyKey }) => idempotencyKey)).toEqual(Array(3).fill('run:step:1'));
    expect(asked.map(({ isFallback }) => isFallback)).toEqual([undefined, undefined, true]);
  });

  test('nothing but a request leaves the chain', async () => {
    const one = fake('one', ['ok']);
    await world([entry(one.provider)]).run({ sessionOf: { provider: 'x', model: 'y' } } as Partial<ChainRequest>);
    expect(Object.keys(one.requests[0] ?? {}).toSorted()).toEqual(['idempotencyKey', 'messages', 'model', 'requestId']);
  });

  test.each([
    ['the model that gave them', { provider: 'one', model: 'm' }, ['s', 'c']],
    ['another model of the provider', { provider: 'one', model: 'other' }, [undefined, undefined]],
    ['another provider', { provider: 'two', model: 'm' }, [undefined, undefined]],
    ['an unknown provider', undefined, [undefined, undefined]],
  ])('tokens of a session given by %s', async (_, sessionOf, tokens) => {
    const one = fake('one', ['ok']);
    const request: Partial<ChainRequest> = { sessionToken: 's', checkpointToken: 'c', sessionOf };
    await world([entry(one.provider, 'm')]).run(request);
    expect(one.requests.map(({ sessionToken, checkpointToken }) => [sessionToken, checkpointToken])).toEqual([tokens]);
  });

  test('each attempt sees what its own provider accepts', async () => {
    const trusted = fake('trusted', ['overloaded']);
    const cloud = fake('cloud', ['ok']);
    const accepting = (provider: typeof cloud.provider, ...acceptsSensitivity: Sensitivity[]) => ({
      ...provider,
      acceptsSensitivity,
    });
    const { run } = world([
      entry(accepting(trusted.provider, 'public', 'internal', 'secret'), 'm', 1),
      entry(accepting(cloud.provider, 'public'), 'm', 1),
    ]);
    await run({
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', parts: [{ type: 'tool_call', id: 'c', name: 'salary', args: '{}' }] },
        { role: 'tool', toolCallId: 'c', toolName: 'salary', content: '4711 per month', sensitivity: 'internal' },
      ],
    });
    expect(JSON.stringify(trusted.requests)).toContain('4711');
    expect(JSON.stringify(cloud.requests)).not.toContain('4711');
    expect(JSON.stringify(cloud.requests)).toContain('withheld');
  });
});
