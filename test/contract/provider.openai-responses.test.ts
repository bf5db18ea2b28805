import { onTestFinished } from 'vitest';
import { createOpenAiResponsesProvider } from '../../src/worker/llm/openai/responses.ts';
import { createTransport } from '../../src/worker/llm/openai/transport.ts';
import { data, reset, stall, startRawProvider, stream, type Reply } from '../support/raw-provider.ts';
import { responsesEvents } from '../support/raw-responses.ts';
import { httpContract } from './provider-http.ts';
import { providerContract, usualUsage, type Saying } from './provider.ts';

providerContract({
  name: 'openai responses',
  without: new Set(),
  async start(saying) {
    const server = await startRawProvider(replyOf(saying));
    const dispatcher = createTransport();
    onTestFinished(async () => {
      await dispatcher.destroy();
      await server[Symbol.asyncDispose]();
    });
    return createOpenAiResponsesProvider({
      id: 'responses',
      baseUrl: server.url,
      apiKey: 'test-key',
      startTimeoutMs: 30_000,
      idleTimeoutMs: 30_000,
      dispatcher,
    });
  },
});

const hello = responsesEvents({ text: ['Hello'] });
httpContract({
  name: 'openai responses',
  create: createOpenAiResponsesProvider,
  hello: { begin: hello.slice(0, -1).join(''), end: hello.at(-1) ?? '' },
});

function replyOf(saying: Saying): Reply {
  const begin = eventsOf(saying, null);
  switch (saying.breaks) {
    case 'eof':
      return stream(...begin);
    case 'reset':
      return reset(...begin);
    case 'hang':
      return stall(...begin);
    case 'garbage':
      return stream(...begin, 'data: {"type": \n\n');
    case 'error': {
      const error = { code: 'server_error', message: 'sorry' };
      return stream(...begin, data({ type: 'response.failed', response: { status: 'failed', error } }));
    }
    default:
      return stream(...eventsOf(saying, endOf(saying)));
  }
}

function eventsOf(saying: Saying, end: ReturnType<typeof endOf> | null): string[] {
  const { reasoning, text, calls, interleaved = false, usage = usualUsage } = saying;
  const events = responsesEvents({
    ...(reasoning && { reasoning: { summary: reasoning.join('') } }),
    ...(text && { text }),
    ...(calls && { calls }),
    interleaved,
    end,
    usage: wireUsage(usage),
  });
  // Servers tell the usage on the way as well.
  const early = data({ type: 'response.in_progress', response: { id: 'resp_raw', usage: wireUsage(usage) } });
  return usage === 'twice' ? [early, ...events] : events;
}

function endOf({ finish }: Saying) {
  if (finish === 'length') return { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
  if (finish === 'content_filter') return { status: 'incomplete', incomplete_details: { reason: 'content_filter' } };
  return { status: 'completed' };
}

function wireUsage(usage: NonNullable<Saying['usage']>) {
  if (usage === 'none') return null;
  const { prompt, output, cached = 0, cacheWrite = 0 } = usage === 'twice' ? usualUsage : usage;
  return {
    input_tokens: prompt,
    output_tokens: output,
    total_tokens: prompt + output,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: cacheWrite },
  };
}
