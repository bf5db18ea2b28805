import { describe, expect, test } from 'vitest';
import type { Permit } from '../../../src/worker/llm/chain-call.ts';
import { LlmError } from '../../../src/worker/llm/errors.ts';
import { TurnSuspension, type ModelChain } from '../../../src/worker/turn/turn-ports.ts';
import { tool } from '../tools/world.ts';
import { bySteps, makeTurn } from './world.ts';

const at = '2026-11-01T00:00:00.000Z';
const later = '2026-11-01T01:00:00.000Z';
const pending = [{ kind: 'budget' as const, id: 'run:R', requestedAt: at }];
const go: Permit = { kind: 'go', settle: async () => {} };
const callsLook = { toolCalls: [{ name: 'look' }] };
const look = tool('look', () => 'blue');
/** What the run room adds to the journal around a wait. */
const waited = (seq: number, budget?: 'approve' | 'reject') =>
  [
    { v: 1, t: 'suspended', seq, reason: 'budget', at },
    { v: 1, t: 'decided', at: later, ...(budget && { budget }) },
  ] as const;

describe('a turn that has to wait', () => {
  test('is suspended with what it waits for, and nothing was sent', async () => {
    const admit = () => Promise.reject(new TurnSuspension({ reason: 'budget', pending }));
    const turn = makeTurn({ deps: { admit } });
    expect(await turn.run()).toMatchObject({ status: 'suspended', wait: { reason: 'budget', pending } });
    expect(turn.requests).toEqual([]);
  });

  test('goes on from its journal', async () => {
    let open = false;
    const admit = async () => {
      if (!open) throw new TurnSuspension({ reason: 'budget', pending });
      return go;
    };
    const script = bySteps(callsLook);
    const first = makeTurn({ script, tools: [look], deps: { admit: async ({ step }) => (step === 1 ? go : admit()) } });
    expect(await first.run()).toMatchObject({ status: 'suspended' });
    open = true;
    const second = makeTurn({ script, tools: [look], deps: { admit } }, [...first.journal, ...waited(1)]);
    const outcome = await second.run();
    expect(outcome).toMatchObject({ status: 'completed', text: 'done' });
    expect(outcome.state).toMatchObject({ suspensions: 1, step: 2 });
    expect(second.requests).toHaveLength(1);
  });

  test('keeps what earlier attempts of the step cost, and counts them against its attempts', async () => {
    let attempts = 0;
    const admit = async () => {
      if (++attempts === 3) throw new TurnSuspension({ reason: 'provider_limit', pending });
      return go;
    };
    const script = () => ({ error: { kind: 'overloaded' as const } });
    const first = makeTurn({ script, maxAttempts: 3, deps: { admit } });
    expect(await first.run()).toMatchObject({ status: 'suspended', state: { attempts: [{}, {}] } });
    const second = makeTurn({ script, maxAttempts: 3, deps: { admit: async () => go } }, [
      ...first.journal,
      ...waited(1),
    ]);
    expect(await second.run()).toMatchObject({ status: 'failed', error: { code: 'provider_unavailable' } });
    expect(second.requests).toHaveLength(1);
    expect(second.eventsOf('llm.call').map((event) => event.attemptNumber)).toEqual([3]);
  });

  test('fails when a person refuses the money, and remembers an approval for one step only', async () => {
    const rejected = makeTurn({}, [...waited(1, 'reject')]);
    expect(await rejected.run()).toMatchObject({ status: 'failed', error: { code: 'budget_exceeded' } });
    expect(rejected.requests).toEqual([]);
    const approved = makeTurn({ script: bySteps(callsLook), tools: [look] }, [...waited(1, 'approve')]);
    const outcome = await approved.run();
    expect(outcome.state.budgetDecision).toBeUndefined();
    expect(outcome.status).toBe('completed');
  });
});

describe('when no model answers', () => {
  const script = () => ({ error: { kind: 'bad_request' as const, message: 'no hunter2-secret' } });

  test('an agent that degrades ends with the error as its text, scrubbed', async () => {
    const turn = makeTurn({ script, spec: { llmFailure: 'degrade' } });
    const outcome = await turn.run();
    expect(outcome).toMatchObject({ status: 'completed', degraded: true, finishReason: 'error' });
    expect(outcome).toHaveProperty('text', expect.stringMatching(/^LLM call failed: no (?!hunter2)/));
  });

  test('other failures are not hidden behind the policy', async () => {
    const spec = { llmFailure: 'degrade' as const };
    const turn = makeTurn({ script: () => callsLook, tools: [look], limits: { maxLlmCalls: 1 }, spec });
    expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'turn_limit' } });
  });

  test.each([
    ['fail', { status: 'failed', error: { code: 'policy_denied', message: 'not today' } }],
    ['degrade', { status: 'completed', degraded: true, text: 'not today' }],
  ] as const)(
    'a denied call is emitted, sends nothing, and the policy of the agent is %s',
    async (llmFailure, expected) => {
      const callPolicy = async () => ({ action: 'deny' as const, reason: 'not today', ruleId: 'r7' });
      const turn = makeTurn({ spec: { llmFailure }, deps: { callPolicy } });
      expect(await turn.run()).toMatchObject(expected);
      expect(turn.requests).toEqual([]);
      expect(turn.events).toEqual([
        { type: 'policy.decision', subject: 'llm_call', action: 'deny', reason: 'not today', ruleId: 'r7' },
      ]);
    },
  );
});

describe('while the breaker of the only model is open', () => {
  const admit = async (): Promise<Permit> => ({ kind: 'skip', reason: 'circuit_open', retryAfterMs: 9_000 });

  test('the run fails and says when to come back', async () => {
    const outcome = await makeTurn({ deps: { admit } }).run();
    expect(outcome).toMatchObject({
      status: 'failed',
      error: { code: 'provider_unavailable', retryable: true, details: { retryAfterMs: 9_000 } },
    });
  });

  test('an agent that waits is suspended until the cooldown is over', async () => {
    const turn = makeTurn({ deps: { admit }, spec: { waitsForBreaker: true } });
    const resumeAtMs = turn.clock.now() + 9_000;
    expect(await turn.run()).toMatchObject({ status: 'suspended', wait: { reason: 'provider_limit', resumeAtMs } });
  });

  test('the call that opened it waits as well, and one that failed otherwise does not', async () => {
    const chain = (code: 'transport' | 'auth'): ModelChain => ({
      async run(_request, call) {
        call.onAttempt({
          attemptNumber: 1,
          step: 1,
          provider: 'p',
          model: 'm',
          outcome: 'failed',
          requestId: 'r',
          costMicrocents: 0,
          priced: false,
          latencyMs: 1,
        });
        throw new LlmError(code, 'p', 'gone');
      },
    });
    const spec = { waitsForBreaker: true };
    const run = async (code: 'transport' | 'auth', down: boolean) =>
      await makeTurn({ deps: { chain: chain(code), isDown: () => down }, spec }).run();
    expect(await run('transport', true)).toMatchObject({ status: 'suspended', wait: { reason: 'provider_limit' } });
    expect(await run('transport', false)).toMatchObject({ status: 'failed' });
    expect(await run('auth', true)).toMatchObject({ status: 'failed' });
  });

  test('it does not wait for ever', async () => {
    const turn = makeTurn({ deps: { admit }, spec: { waitsForBreaker: true } }, [...waited(120)]);
    expect(await turn.run()).toMatchObject({ status: 'failed', error: { code: 'provider_unavailable' } });
  });
});

test('a stream that broke off is marked as void where the chain makes it again', async () => {
  const turn = makeTurn({
    deps: {
      chain: {
        async run(_request, call) {
          call.onPart({ type: 'text', delta: 'half' }, 'm');
          call.onReset?.(new LlmError('transport', 'p', 'gone'));
          call.onPart({ type: 'text', delta: 'whole' }, 'm');
          const message = { role: 'assistant' as const, parts: [{ type: 'text' as const, text: 'whole' }] };
          const answer = { message, finishReason: 'stop' as const, incompleteToolCalls: [] };
          return { answer, provider: 'p', model: 'm', attempts: [] };
        },
      },
    },
  });
  await turn.run();
  expect(turn.events.map((event) => (event.type === 'text.delta' ? event.delta : event.type))).toEqual([
    'step.start',
    'half',
    'step.reset',
    'whole',
    'text.complete',
    'step.end',
  ]);
});
