import { expect, test } from 'vitest';
import type { ErrorCode } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import type { Fault } from '../support/plan.ts';
import { shareWorld } from '../support/world.ts';

/** A model of its own for each run: failures of one open its breaker, and a 429 stops everybody who calls it. */
const names = Array.from({ length: 200 }, (_, i) => `model-${i}`);
let models = 0;
const alone = () => ({ overrides: { model: names[models++] as string } });

const shared = shareWorld({
  env: { LLM_START_TIMEOUT_MS: '600', LLM_IDLE_TIMEOUT_MS: '600', MODEL_ALLOWLIST: names.join(',') },
});

const text = 'one two three four';
const cut = { afterPieces: 2 } as const;
/** More faults of one kind than any agent of these tests makes attempts. */
const always = (fault: Fault) => Array.from({ length: 10 }, () => fault);

const passing: [string, Fault, string][] = [
  ['answers 429', { kind: 'status', status: 429 }, 'rate_limit'],
  ['answers 500', { kind: 'status', status: 500 }, 'overloaded'],
  ['answers 503', { kind: 'status', status: 503 }, 'overloaded'],
  ['sends no byte', { kind: 'hang' }, 'timeout'],
  ['resets the connection before the first piece', { kind: 'cut', afterPieces: 0 }, 'transport'],
  ['ends cleanly before the first piece', { kind: 'eof', afterPieces: 0 }, 'transport'],
  ['sends a first chunk that is not JSON', { kind: 'garbage', afterPieces: 0 }, 'transport'],
  ['answers with a web page', { kind: 'page' }, 'transport'],
];

test.each(passing)('a provider that once %s is tried again', async (_, fault, kind) => {
  const { world } = shared;
  const run = await world.submit('hands', [{ text, faults: [fault] }], alone());
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text } });
  expect(observed.view.attempts).toMatchObject([{ outcome: 'failed', error: { kind } }, { outcome: 'succeeded' }]);
  expect(world.provider.callsOf(run.runId)).toHaveLength(2);
});

test('a provider that asks for a second gets it', async () => {
  const { world } = shared;
  const run = await world.submit(
    'plain',
    [{ text, faults: [{ kind: 'status', status: 429, retryAfterS: 1 }] }],
    alone(),
  );
  expect((await world.ended(run)).view.status).toBe('completed');
  const [first, second] = world.provider.callsOf(run.runId);
  expect((second?.startedAt ?? 0) - (first?.startedAt ?? 0)).toBeGreaterThanOrEqual(1_000);
});

const final: [string, Fault, ErrorCode, number][] = [
  ['keeps answering 429', { kind: 'status', status: 429 }, 'provider_rate_limit', 3],
  ['keeps answering 500', { kind: 'status', status: 500 }, 'provider_unavailable', 3],
  ['never sends a byte', { kind: 'hang' }, 'provider_unavailable', 3],
  ['always answers with a web page', { kind: 'page' }, 'provider_unavailable', 3],
  ['refuses the key', { kind: 'status', status: 401, code: 'invalid_api_key' }, 'provider_auth', 1],
  ['forbids', { kind: 'status', status: 403 }, 'provider_auth', 1],
  [
    'says that the context is too long',
    { kind: 'status', status: 400, code: 'context_length_exceeded' },
    'context_length_exceeded',
    1,
  ],
  ['refuses the content', { kind: 'filtered' }, 'content_filter', 1],
];

test.each(final)('a provider that %s fails the run with a code', async (_, fault, code, attempts) => {
  const { world } = shared;
  const run = await world.submit('hands', [{ text, faults: always(fault) }], alone());
  const { view } = await world.ended(run);
  expect([view.status, view.error?.code]).toEqual(['failed', code]);
  expect(view.attempts).toHaveLength(attempts);
  expect(world.provider.callsOf(run.runId)).toHaveLength(attempts);
});

const broken: [string, Fault][] = [
  ['falls silent', { kind: 'stall', ...cut }],
  ['is reset', { kind: 'cut', ...cut }],
  ['ends without a finish reason', { kind: 'eof', ...cut }],
  ['turns into garbage', { kind: 'garbage', ...cut }],
  ['carries an error', { kind: 'error', ...cut }],
];

test.each(broken)('an answer that %s after its first words is an error and never a result', async (_, fault) => {
  const { world } = shared;
  const run = await world.submit('hands', [{ text, faults: always(fault) }], alone());
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('failed');
  expect(observed.view.error?.code).toBe('provider_unavailable');
  expect(observed.view.result).toBeUndefined();
  expect(eventsOf(observed, 'run.failed')[0]?.partial).toBe('one two ');
  expect(eventsOf(observed, 'text.complete')).toEqual([]);
});

test.each(['length', 'none'] as const)(
  'a tool call whose arguments are cut off (finish: %s) never runs',
  async (finish) => {
    const { world } = shared;
    const calls = [{ name: 'charge', args: { id: 'half' } }];
    const run = await world.submit('hands', [
      { calls, faults: always({ kind: 'half-call', finish }) },
      { text: 'after' },
    ]);
    const observed = await world.ended(run);
    expect(observed.view.status).toBe('failed');
    expect(['incomplete_tool_call', 'provider_unavailable']).toContain(observed.view.error?.code);
    expect(observed.executions).toEqual([]);
  },
);
