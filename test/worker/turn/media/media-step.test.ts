import { expect, test } from 'vitest';
import { LlmError } from '../../../../src/worker/llm/errors.ts';
import type { MediaPort } from '../../../../src/worker/llm/provider.ts';
import { createScriptedProvider } from '../../../../src/worker/llm/backends/scripted.ts';
import { makeTurn, type TurnOptions } from '../world.ts';

function making(port: MediaPort): TurnOptions {
  const provider = { ...createScriptedProvider(() => ({ text: 'chat' })), media: port };
  const offer = { modality: 'video', unitMicrocents: 10 } as const;
  const media = { provider, model: 'film', offer, wanted: {}, keep: async () => 'f'.repeat(64) };
  return { deps: { media } };
}

test('a job that failed is not asked for again: who goes on from the journal gives a new one', async () => {
  let jobs = 0;
  const options = making({
    generateMedia: async () => ({ jobId: `job-${++jobs}` }),
    pollMedia: () => Promise.reject(new LlmError('content_filter', 'scripted', 'refused')),
  });
  const turn = makeTurn(options);
  expect(await turn.run()).toMatchObject({
    status: 'suspended',
    wait: { reason: 'media', pending: [{ id: 'job-1' }] },
  });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'content_filter' } });
  const later = makeTurn(options, turn.journal);
  expect(await later.run()).toMatchObject({ status: 'suspended', wait: { pending: [{ id: 'job-2' }] } });
  expect(turn.events.filter(({ type }) => type === 'cost.updated')).toHaveLength(1);
});

test('a job of a provider that no longer serves the model is not given to another one', async () => {
  const port: MediaPort = { generateMedia: async () => ({ jobId: 'job-1' }), pollMedia: async () => undefined };
  const turn = makeTurn(making(port));
  await turn.run();
  const moved = making(port);
  const media = moved.deps?.media as NonNullable<NonNullable<TurnOptions['deps']>['media']>;
  const elsewhere = { deps: { media: { ...media, provider: { ...media.provider, id: 'elsewhere' } } } };
  expect(await makeTurn(elsewhere, turn.journal).run()).toMatchObject({
    status: 'failed',
    error: { code: 'internal' },
  });
});

test('money that was asked for is given back when the run is cancelled before the call', async () => {
  const settled: unknown[] = [];
  let calls = 0;
  const generateMedia = async () => ({ jobId: `job-${++calls}` });
  const turn = makeTurn({
    deps: {
      ...making({ generateMedia, pollMedia: async () => undefined }).deps,
      admit: async (planned) => {
        expect(planned).toMatchObject({ fixedMicrocents: 40, request: { messages: [], maxOutputTokens: 0 } });
        turn.stop.abort();
        return { kind: 'go', settle: async (end) => void settled.push(end.error?.kind) };
      },
    },
  });
  expect(await turn.run()).toMatchObject({ status: 'cancelled' });
  expect(settled).toEqual(['cancelled']);
  expect(calls).toBe(0);
});

test('a model that is not let through is not called', async () => {
  const turn = makeTurn({
    deps: {
      ...making({ generateMedia: () => Promise.reject(new Error('must not be called')) }).deps,
      admit: async () => ({ kind: 'skip', reason: 'circuit_open' }),
    },
  });
  expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'provider_unavailable' } });
});
