import type { CallView, RunSteps, StepView } from '../../../../src/shared/contract/archive/run-steps.ts';
import type { Attempt } from '../../../../src/shared/contract/journal/journal.ts';

/** Milliseconds after the run was queued, as a time. */
export function at(ms: number): string {
  return new Date(Date.UTC(2026, 10, 22, 14, 0, 0) + ms).toISOString();
}

export function attempt(some: Partial<Attempt> = {}): Attempt {
  return {
    attemptNumber: 1,
    step: 1,
    provider: 'openai',
    model: 'gpt-5.2-mini',
    outcome: 'succeeded',
    requestId: 'r:s1:a1',
    usage: { input: 100, output: 20, cached: 0, cacheWrite: 0, total: 120 },
    costMicrocents: 3_000,
    priced: true,
    latencyMs: 1_000,
    ...some,
  };
}

export function call(some: Partial<CallView> = {}): CallView {
  return {
    toolCallId: 'r:s1:t0',
    toolName: 'lookup_order',
    index: 0,
    args: { order: '7' },
    policy: [],
    flow: [],
    inner: [],
    ...some,
  };
}

export function step(some: Partial<StepView> = {}): StepView {
  return {
    stepNumber: 1,
    agent: 'support',
    model: 'gpt-5.2-mini',
    provider: 'openai',
    request: { added: [] },
    attempts: [attempt()],
    fallbacks: [],
    calls: [],
    usage: { input: 100, output: 20, cached: 0, cacheWrite: 0, total: 120 },
    costMicrocents: 3_000,
    ...some,
  };
}

export function run(some: Partial<RunSteps> = {}): RunSteps {
  return {
    runId: 'r',
    status: 'completed',
    source: 'live',
    initial: [],
    steps: [],
    segments: [],
    waits: [],
    children: [],
    orchestration: [],
    policy: [],
    queuedAt: at(0),
    ...some,
  };
}

/** A run whose first worker died in the call of its first step, and which asked a person before its second. */
export function recoveredRun(): RunSteps {
  return run({
    startedAt: at(500),
    endedAt: at(20_000),
    segments: [
      { worker: 'worker-a', from: at(500), to: at(3_000), end: 'lost' },
      { worker: 'worker-b', from: at(6_000), to: at(9_000), end: 'suspended', recoveredFrom: 0 },
      { worker: 'worker-b', from: at(15_000), to: at(20_000), end: 'ended' },
    ],
    waits: [
      {
        reason: 'approval',
        from: at(9_000),
        to: at(15_000),
        waitsFor: [{ kind: 'approval', id: 'r:s1:t1', toolName: 'refund' }],
        by: ['anna'],
      },
    ],
    steps: [
      step({
        startedAt: at(600),
        endedAt: at(16_000),
        attempts: [
          attempt({
            outcome: 'failed',
            latencyMs: 200,
            costMicrocents: 0,
            error: { kind: 'overloaded', message: '529' },
          }),
          attempt({ attemptNumber: 2, requestId: 'r:s1:a2', model: 'gpt-5.2-nano' }),
        ],
        fallbacks: [{ at: at(800), from: 'gpt-5.2-mini', to: 'gpt-5.2-nano', reason: 'capacity' }],
        calls: [
          call({
            startedAt: at(6_100),
            endedAt: at(6_300),
            durationMs: 200,
            starts: 2,
            result: { content: 'shipped' },
          }),
          call({
            toolCallId: 'r:s1:t1',
            toolName: 'refund',
            index: 1,
            startedAt: at(15_100),
            endedAt: at(15_900),
            error: { kind: 'execution_failed', message: 'the bank said no', hint: 'try_alternative' },
            decision: { granted: true, by: ['anna'], at: at(15_000), edited: true },
            policy: [{ at: at(8_900), subject: 'tool_call', action: 'request_approval', ruleId: 'money' }],
          }),
        ],
      }),
      step({ stepNumber: 2, startedAt: at(16_100), endedAt: at(19_000), attempts: [attempt({ step: 2 })] }),
    ],
    children: [
      {
        runId: 'c1',
        agent: 'clerk',
        status: 'completed',
        toolCallId: 'r:s1:t0',
        startedAt: at(6_150),
        endedAt: at(6_250),
      },
      {
        runId: 'c2',
        agent: 'judge',
        status: 'failed',
        startedAt: at(17_000),
        endedAt: at(18_000),
        costMicrocents: 500,
      },
    ],
  });
}
