import { systemClock, type Clock } from '../../src/shared/base/clock.ts';
import type { Usage } from '../../src/shared/contract/money.ts';
import { inChunks, withMiddleware } from '../../src/worker/llm/backends/middleware.ts';
import { LlmError } from '../../src/worker/llm/errors.ts';
import { createIterableBackend, type IterableEnd } from '../../src/worker/llm/backends/iterable.ts';
import type { LlmPart } from '../../src/worker/llm/provider.ts';
import { createSandboxPromptBackend } from '../../src/worker/llm/backends/sandbox-prompt.ts';
import { createScriptedProvider } from '../../src/worker/llm/backends/scripted.ts';
import { providerContract, usualUsage, type ProviderKind, type Saying } from './provider.ts';

providerContract({
  name: 'scripted',
  // A script says a whole answer or fails; without usage it estimates.
  without: new Set(['interleaved', 'usage forms', 'eof', 'reset', 'garbage']),
  start: async ({ reasoning = [], text = [], calls, finish, breaks }) =>
    createScriptedProvider(
      () => ({
        reasoning: reasoning.join(''),
        text: breaks === 'hang' ? 'hi there' : text.join('') || undefined,
        ...(calls && { toolCalls: calls.map(({ id, name, args }) => ({ id, name, args: args.join('') })) }),
        ...(finish && { finishReason: finish }),
        ...(breaks === 'error' && { error: { kind: 'overloaded' } }),
        ...(breaks === 'hang' && { deltaMs: 1 }),
      }),
      { clock: clockThatStops() },
    ),
});

/** The second wait does not end by itself. */
function clockThatStops(): Clock {
  let sleeps = 0;
  return {
    ...systemClock,
    sleep: (ms, signal) => systemClock.sleep(++sleeps === 1 ? ms : 2 ** 30, signal),
  };
}

const iterable: ProviderKind = {
  name: 'iterable',
  // A generator that returns has answered, so it cannot break off other than by throwing.
  without: new Set(['eof', 'reset', 'garbage']),
  start: async (saying) => createIterableBackend(() => partsOf(saying)),
};
providerContract(iterable);

providerContract({
  ...iterable,
  name: 'iterable behind a middleware',
  start: async (saying) =>
    withMiddleware(await iterable.start(saying), [
      { name: 'through', kind: 'observe', generate: (request, onPart, signal, next) => next(request, onPart, signal) },
    ]),
});

providerContract({
  ...iterable,
  name: 'iterable that does not stream',
  without: new Set([...iterable.without, 'parts']),
  start: async (saying) => {
    const capabilities = { tools: true, reasoning: true, streaming: false };
    return inChunks(createIterableBackend(() => partsOf(saying), { capabilities }));
  },
});

providerContract({
  name: 'sandbox',
  // Tools run in the box; its stream has no notion of a refused content or of broken JSON.
  without: new Set(['calls', 'interleaved', 'garbage']),
  start: async (saying) =>
    createSandboxPromptBackend({
      getBox: () => ({ sessionId: 'box-1' }),
      getSessionId: (box) => box.sessionId,
      streamPrompt: (_box, _message, { resumeAfter }) => boxEvents(saying, resumeAfter ?? 0),
    }),
});

async function* partsOf({
  reasoning = [],
  text = [],
  calls = [],
  ...saying
}: Saying): AsyncGenerator<LlmPart | IterableEnd> {
  for (const delta of reasoning) yield { type: 'reasoning', delta };
  for (const delta of text) yield { type: 'text', delta };
  if (saying.interleaved) {
    for (const { id, name } of calls) yield { type: 'tool_call_start', id, name };
    for (let at = 0; calls.some(({ args }) => at < args.length); at++) {
      for (const { id, args } of calls) {
        const delta = args[at];
        if (delta !== undefined) yield { type: 'tool_call_delta', id, delta };
      }
    }
  } else {
    for (const { id, name, args } of calls) {
      yield { type: 'tool_call_start', id, name };
      for (const delta of args) yield { type: 'tool_call_delta', id, delta };
    }
  }
  if (saying.breaks === 'hang') await new Promise(() => {});
  if (saying.breaks === 'error') throw new LlmError('overloaded', 'iterable', 'sorry');
  const usage = usageOf(saying.usage);
  const end: IterableEnd = {
    type: 'end',
    ...(saying.finish && { finishReason: saying.finish }),
    ...(usage && { usage }),
  };
  yield end;
  if (saying.usage === 'twice') yield end;
}

async function* boxEvents({ reasoning = [], text = [], breaks, ...saying }: Saying, from: number) {
  const events: object[] = [
    ...reasoning.map((delta) => ({ type: 'reasoning', delta })),
    ...text.map((delta) => ({ type: 'text-delta', delta })),
  ];
  yield* events.slice(from);
  if (breaks === 'hang') await new Promise(() => {});
  if (breaks === 'reset') throw new Error('ECONNRESET');
  if (breaks === 'error') yield { type: 'error', message: 'sorry' };
  if (breaks !== undefined) return;
  yield { type: 'final', finishReason: saying.finish, usage: usageOf(saying.usage) };
}

function usageOf(said: Saying['usage'] = usualUsage): Usage | undefined {
  if (said === 'none') return undefined;
  const { prompt, output, cached = 0, cacheWrite = 0 } = said === 'twice' ? usualUsage : said;
  return { input: prompt - cached - cacheWrite, output, cached, cacheWrite, total: prompt + output };
}
