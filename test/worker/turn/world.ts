import { limits, type LimitsOverride } from '../../../src/shared/contract/agent/agent.ts';
import type { Clock } from '../../../src/shared/base/clock.ts';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import type { Message } from '../../../src/shared/contract/message.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { FallbackChain } from '../../../src/worker/llm/fallback-chain.ts';
import type { LlmProvider, LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { createToolExecutor } from '../../../src/worker/tools/execute/execute.ts';
import type { Tool } from '../../../src/worker/tools/tool.ts';
import type { TurnDeps, TurnOutcome, TurnSpec } from '../../../src/worker/turn/turn-ports.ts';
import { foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import { runTurn } from '../../../src/worker/turn/turn.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';

export const question: readonly Message[] = [{ role: 'user', content: 'What is it?' }];

/** One microcent for a token of the prompt, two for a token of the answer. */
export const price = { input: 1_000_000, output: 2_000_000, cached: 500_000, cacheWrite: 1_000_000 };

/** Waits of the chain take no time. */
const instant: Clock = { now: () => 0, monotonic: () => 0, sleep: async () => {} };

export interface TurnOptions {
  readonly script?: ModelScript;
  /** Instead of `script`: the candidates, in order. */
  readonly providers?: readonly LlmProvider[];
  readonly maxAttempts?: number;
  readonly tools?: readonly Tool[];
  readonly limits?: LimitsOverride;
  readonly spec?: Partial<TurnSpec>;
  readonly deps?: Partial<TurnDeps>;
  readonly initial?: readonly Message[];
}

export interface TurnWorld {
  readonly journal: JournalEntry[];
  readonly events: EventBody[];
  readonly requests: LlmRequest[];
  readonly clock: FakeClock;
  readonly stop: AbortController;
  /** The entries of each durable write. */
  readonly writes: (readonly JournalEntry[])[];
  /** Runs the turn from where the journal stands. */
  run(): Promise<TurnOutcome>;
  eventsOf<T extends EventBody['type']>(type: T): Extract<EventBody, { type: T }>[];
}

/** A turn in memory, with everything it emitted and recorded. A second world with the same journal is another worker. */
export function makeTurn(options: TurnOptions, journal: JournalEntry[] = []): TurnWorld {
  const requests: LlmRequest[] = [];
  const providers = options.providers ?? [createScriptedProvider(options.script ?? (() => ({ text: 'hello' })))];
  const candidates = providers.map((provider, index) => ({
    provider: {
      ...provider,
      generate: (request: LlmRequest, ...rest: [Parameters<LlmProvider['generate']>[1], AbortSignal]) => {
        requests.push(request);
        return provider.generate(request, ...rest);
      },
    },
    model: `model-${index + 1}`,
    maxAttempts: options.maxAttempts ?? 1,
    backoff: 'exponential' as const,
  }));
  const world: TurnWorld = {
    journal,
    events: [],
    requests,
    clock: new FakeClock(),
    stop: new AbortController(),
    writes: [],
    async run() {
      const spec: TurnSpec = {
        system: 'Be brief.',
        model: 'model-1',
        modelSource: 'agent',
        limits: limits.parse(options.limits ?? {}),
        toolFailure: 'feed_back',
        subagentFailure: 'feed_back',
        ...options.spec,
      };
      const deps: TurnDeps = {
        chain: new FallbackChain(candidates, { clock: instant, price: () => price }),
        tools: createToolExecutor(options.tools ?? [], {
          runId: 'R',
          tenant: 'T',
          keyFor: (step, index) => `R:s${step}:t${index}`,
        }),
        clock: world.clock,
        redactor: new Redactor(['hunter2-secret']),
        emit: (event) => void world.events.push(event),
        async record(entries) {
          world.writes.push(entries);
          journal.push(...entries);
        },
        requestId: (step) => `R:step:${step}`,
        ...options.deps,
      };
      return await runTurn(spec, foldJournal(options.initial ?? question, [...journal]), deps, world.stop.signal);
    },
    eventsOf<T extends EventBody['type']>(type: T) {
      return world.events.filter((event): event is Extract<EventBody, { type: T }> => event.type === type);
    },
  };
  return world;
}

/** The step that a request belongs to. */
export function stepOf(request: LlmRequest): number {
  return Number(request.requestId.split(':').at(-1));
}

/** A script by step: a step without a line says `done`. */
export function bySteps(...steps: readonly ReturnType<ModelScript>[]): ModelScript {
  return (request) => steps[stepOf(request) - 1] ?? { text: 'done' };
}
