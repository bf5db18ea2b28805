import { describe, expect, test } from 'vitest';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import type { AttemptEnd, PlannedAttempt } from '../../../src/worker/llm/chain-call.ts';
import { LlmError } from '../../../src/worker/llm/errors.ts';
import type { LlmProvider } from '../../../src/worker/llm/provider.ts';
import type { Admission, Breakers } from '../../../src/shared/state/limits/breakers.ts';
import type { RateLimiter, GrantOutcome } from '../../../src/shared/state/limits/rate/rate-limiter.ts';
import type { Ledger, ReserveRequest, Reservation, Settlement } from '../../../src/shared/state/money/ledger.ts';
import type { AccountState } from '../../../src/shared/state/money/accounts.ts';
import { AttemptGate, type GateOptions } from '../../../src/worker/admission/attempt-gate.ts';
import { TurnSuspension } from '../../../src/worker/turn/turn-ports.ts';
import { fakeClock, never, usage } from '../llm/chain-world.ts';

/** Microcents per million tokens. */
const price = { input: 1_000_000, output: 1_000_000, cached: 0, cacheWrite: 0 };
const provider: LlmProvider = {
  id: 'acme',
  credential: 'acme-1',
  capabilities: { tools: true, reasoning: true },
  limitsOf: () => ({ requestsPerMinute: 60 }),
  generate: () => expect.unreachable(),
};
const request = {
  model: 'm',
  requestId: 'r:step:1',
  idempotencyKey: 'r:step:1',
  messages: [{ role: 'user' as const, content: 'x'.repeat(300) }],
  maxOutputTokens: 1_000,
};
const planned: PlannedAttempt = { step: 1, attemptNumber: 1, provider, price, request };
const account: AccountState = {
  scope: 'batch',
  id: 'b1',
  capMicrocents: 5_000,
  spentMicrocents: 4_900,
  reservedMicrocents: 0,
};
const answered: AttemptEnd = { usage, costMicrocents: 7, priced: true, rateLimit: undefined };

interface Answers {
  admission?: Admission;
  parkedMs?: number;
  reservations?: readonly Reservation[];
  capped?: boolean;
  settleFails?: boolean;
}

/** A gate whose stores give these answers, and what was reported to them. */
function makeGate(answers: Answers = {}, options: Partial<GateOptions> = {}) {
  const reports: unknown[] = [];
  const events: EventBody[] = [];
  const asked: ReserveRequest[] = [];
  const settled: Settlement[] = [];
  const outcomes: GrantOutcome[] = [];
  const woken: string[] = [];
  const clock = fakeClock();
  const breakers = {
    admit: async () => answers.admission ?? { kind: 'closed' as const },
    report: async (...report: unknown[]) => void reports.push(report.slice(0, 2)),
  } as unknown as Breakers;
  const rateLimiter = {
    acquire: async ({ limiter, tenant }: { limiter: string; tenant: string }) =>
      answers.parkedMs === undefined
        ? { kind: 'granted' as const, grant: { id: 'g', limiter, tenant, tokens: 1, waitedMs: 0 } }
        : { kind: 'parked' as const, expectedMs: answers.parkedMs },
    park: async ({ runId }: { runId: string }) => void reports.push(['park', runId]),
    settle: async (_grant: unknown, outcome: GrantOutcome) => void outcomes.push(outcome),
  } as unknown as RateLimiter;
  const ledger = {
    isCapped: () => answers.capped ?? true,
    reserve: async (asking: ReserveRequest) => {
      asked.push(asking);
      const { reservations = [{ kind: 'reserved', amount: asking.wanted, warnings: [] }] } = answers;
      return reservations[Math.min(asked.length, reservations.length) - 1];
    },
    settle: async (settlement: Settlement) => {
      if (answers.settleFails) throw new Error('away');
      settled.push(settlement);
      return ['other-run'];
    },
    await: async () => true,
  } as unknown as Ledger;
  const gate = new AttemptGate({
    ports: { breakers, rateLimiter, ledger },
    clock,
    log: silentLog,
    accounts: { runId: 'r', tenant: 't', agentId: 'a', batch: 'b1' },
    owner: 'me',
    weight: 1,
    breaker: { failureThreshold: 5, cooldownMs: 30_000 },
    maxInlineWaitMs: 5_000,
    denyUnpriced: false,
    approved: () => false,
    emit: (event) => events.push(event),
    wake: (runIds) => woken.push(...runIds),
    ...options,
  });
  return { gate, reports, events, asked, settled, outcomes, woken, clock };
}

async function waitOf(attempt: Promise<unknown>): Promise<TurnSuspension['wait']> {
  const error = await attempt.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof TurnSuspension)) throw new Error('the gate did not ask to wait', { cause: error });
  return error.wait;
}

async function pass(gate: AttemptGate, attempt = planned) {
  const permit = await gate.admit(attempt, never);
  if (permit.kind !== 'go') throw new Error(`skipped: ${permit.reason}`);
  return permit;
}

describe('an attempt that may be made', () => {
  test('reserves what it can cost, and settles with what it did cost', async () => {
    const { gate, asked, settled, outcomes, reports, woken } = makeGate();
    const permit = await pass(gate);
    const rate = { requests: { limit: 60 } };
    await permit.settle({ ...answered, rateLimit: rate });
    const prompt = 100 + 4;
    expect(asked).toMatchObject([{ id: 'me:1', wanted: prompt + 1_000, least: prompt + 256, force: false }]);
    const expectedMicrocents = prompt + usage.output;
    expect(settled).toMatchObject([
      { id: 'me:1', costMicrocents: 7, expectedMicrocents, priced: true, unconfirmed: false, model: 'm' },
    ]);
    expect(outcomes).toEqual([{ usedTokens: 1_000_000, outputTokens: 0, report: rate }]);
    expect(reports).toEqual([['acme/m', 'success']]);
    expect(woken).toEqual(['other-run']);
    expect(permit.maxOutputTokens).toBeUndefined();
  });

  test('gets a shorter answer when less money is left', async () => {
    const { gate } = makeGate({ reservations: [{ kind: 'reserved', amount: 604, warnings: [] }] });
    expect((await pass(gate)).maxOutputTokens).toBe(500);
  });

  test('asks for no money where there is no cap', async () => {
    const { gate, asked, settled } = makeGate({ capped: false });
    await (await pass(gate)).settle(answered);
    expect([asked.length, settled.length]).toEqual([0, 1]);
  });

  test('of an unknown price reserves nothing, and is refused where the budget denies that', async () => {
    const unpriced = { ...planned, price: undefined };
    const allowed = makeGate();
    expect((await pass(allowed.gate, unpriced)).maxOutputTokens).toBeUndefined();
    expect(allowed.asked).toMatchObject([{ wanted: 0, least: 0 }]);
    const { gate, outcomes } = makeGate({}, { denyUnpriced: true });
    await expect(gate.admit(unpriced, never)).rejects.toMatchObject({ code: 'budget_unpriced' });
    expect(outcomes).toEqual([{ unused: true }]);
  });

  test('that a person allowed passes the caps, in that step only', async () => {
    const { gate, asked } = makeGate({}, { approved: (step) => step === 1 });
    await pass(gate);
    await pass(gate, { ...planned, step: 2 });
    expect(asked.map(({ force, id }) => [id, force])).toEqual([
      ['me:1', true],
      ['me:2', false],
    ]);
  });

  test('that passes a cap which only warns emits a warning as often as the ledger does', async () => {
    const warned = { kind: 'reserved', amount: 1_104, warnings: [{ ...account, spentMicrocents: 4_000 }] } as const;
    const { gate, events } = makeGate({ reservations: [warned, { ...warned, warnings: [] }] });
    await pass(gate);
    await pass(gate);
    expect(events).toEqual([
      { type: 'budget.warning', spentMicrocents: 4_000, limitMicrocents: 5_000, thresholdPct: 80 },
    ]);
  });

  test('stays made when the stores are away afterwards', async () => {
    const { gate } = makeGate({ settleFails: true });
    await expect((await pass(gate)).settle(answered)).resolves.toBeUndefined();
  });
});

describe('what an attempt shows about its model', () => {
  test.each([
    ['overloaded', {}, 'failure', false],
    ['rate_limit', { status: 429 }, 'neutral', false],
    ['timeout', {}, 'failure', true],
    ['transport', {}, 'failure', true],
    ['transport', { cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }) }, 'failure', false],
    ['transport', { usage }, 'failure', false],
    ['cancelled', {}, 'neutral', true],
    ['auth', { status: 401 }, 'neutral', false],
    ['bad_request', { status: 400 }, 'neutral', false],
    ['content_filter', {}, 'neutral', false],
  ] as const)('%s %o is a %s, unconfirmed billed: %s', async (kind, details, health, unconfirmed) => {
    const { gate, reports, settled } = makeGate();
    const error = new LlmError(kind, 'acme', 'no', details);
    await (await pass(gate)).settle({ ...answered, usage: undefined, costMicrocents: 0, error });
    expect(reports).toEqual([['acme/m', health]]);
    expect(settled).toMatchObject([{ unconfirmed }]);
  });

  test('a probe that is answered, if only by a refusal, finds the model well', async () => {
    const { gate, reports } = makeGate({ admission: { kind: 'probe' } });
    const error = new LlmError('bad_request', 'acme', 'no', { status: 400 });
    await (await pass(gate)).settle({ ...answered, error });
    expect(reports).toEqual([['acme/m', 'success']]);
  });

  test('a 429 goes to the whole fleet, with what it asked for', async () => {
    const { gate, outcomes } = makeGate();
    const error = new LlmError('rate_limit', 'acme', 'no', { status: 429, retryAfterMs: 900 });
    await (await pass(gate)).settle({ ...answered, usage: undefined, error });
    expect(outcomes).toEqual([{ limited: { retryAfterMs: 900 } }]);
  });
});

describe('an attempt that may not be made', () => {
  test('is skipped while the model is known to be down', async () => {
    const { gate, asked, outcomes } = makeGate({ admission: { kind: 'open', retryAfterMs: 77 } });
    expect(await gate.admit(planned, never)).toEqual({ kind: 'skip', reason: 'circuit_open', retryAfterMs: 77 });
    expect([asked, outcomes]).toEqual([[], []]);
  });

  test('waits without a worker when its turn is far away, and takes its probe back', async () => {
    const { gate, reports, asked } = makeGate({ parkedMs: 12_300, admission: { kind: 'probe' } });
    const wait = await waitOf(gate.admit(planned, never));
    expect(wait).toMatchObject({ reason: 'provider_limit', pending: [{ kind: 'provider_limit', id: 'acme:m' }] });
    expect(reports).toEqual([['acme/m', 'neutral']]);
    expect(await wait.joinWaitQueue?.()).toBe(false);
    expect(reports.at(-1)).toEqual(['park', 'r']);
    expect(asked).toEqual([]);
  });

  test('ends the run where the budget fails it, and returns its permit', async () => {
    const { gate, outcomes, reports } = makeGate({ reservations: [{ kind: 'exceeded', account, onExceed: 'fail' }] });
    await expect(gate.admit(planned, never)).rejects.toMatchObject({
      code: 'budget_exceeded',
      message: expect.stringContaining('batch b1: $0.000049 spent'),
      details: { scope: 'batch', id: 'b1' },
    });
    expect(outcomes).toEqual([{ unused: true }]);
    expect(reports).toEqual([['acme/m', 'neutral']]);
  });

  test('waits for a person where the budget pauses it', async () => {
    const { gate, events } = makeGate({
      reservations: [{ kind: 'exceeded', account, onExceed: 'pause_for_approval' }],
    });
    const wait = await waitOf(gate.admit(planned, never));
    expect(wait).toMatchObject({
      reason: 'budget',
      pending: [{ kind: 'budget', id: 'batch:b1', args: { neededMicrocents: 360 } }],
    });
    expect(wait.recheckMs).toBeUndefined();
    expect(await wait.joinWaitQueue?.()).toBe(true);
    expect(events).toMatchObject([{ type: 'budget.paused', gateId: 'batch:b1', scope: 'batch', accountId: 'b1' }]);
  });

  test('refuses a call that the run can do without, where another would wait for a person or be let past the cap', async () => {
    const { gate, events, asked } = makeGate(
      { reservations: [{ kind: 'exceeded', account, onExceed: 'pause_for_approval' }] },
      { approved: () => true },
    );
    await expect(gate.admit({ ...planned, optional: true }, never)).rejects.toMatchObject({ code: 'budget_exceeded' });
    expect(asked).toMatchObject([{ force: false }]);
    expect(events).toEqual([]);
  });

  test('gives calls under way a moment to turn out cheaper, then waits without a worker', async () => {
    const busy: Reservation = { kind: 'busy', account };
    const soon = makeGate({ reservations: [busy, busy, { kind: 'reserved', amount: 1_104, warnings: [] }] });
    await pass(soon.gate);
    expect(soon.clock.sleeps).toEqual([50, 100]);
    const late = makeGate({ reservations: [busy] });
    expect((await waitOf(late.gate.admit(planned, never))).reason).toBe('budget');
    expect(late.clock.sleeps.reduce((sum, ms) => sum + ms, 0)).toBeLessThanOrEqual(5_000);
  });
});
