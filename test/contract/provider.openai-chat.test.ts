import { onTestFinished } from 'vitest';
import { createOpenAiChatProvider } from '../../src/worker/llm/openai/chat.ts';
import { createTransport } from '../../src/worker/llm/openai/transport.ts';
import { data, delta, finish, reset, stall, startRawProvider, stream, type Reply } from '../support/raw-provider.ts';
import { httpContract } from './provider-http.ts';
import { providerContract, usualUsage, type Saying } from './provider.ts';

providerContract({
  name: 'openai chat',
  without: new Set(),
  async start(saying) {
    const server = await startRawProvider(replyOf(saying));
    const dispatcher = createTransport();
    onTestFinished(async () => {
      await dispatcher.destroy();
      await server[Symbol.asyncDispose]();
    });
    return createOpenAiChatProvider({
      id: 'chat',
      baseUrl: server.url,
      apiKey: 'test-key',
      startTimeoutMs: 30_000,
      idleTimeoutMs: 30_000,
      dispatcher,
    });
  },
});

httpContract({
  name: 'openai chat',
  create: createOpenAiChatProvider,
  hello: { begin: data(delta({ content: 'Hello' })), end: data(finish('stop')) + 'data: [DONE]\n\n' },
});

function replyOf(saying: Saying): Reply {
  const begin = [...beginOf(saying)].map(data);
  switch (saying.breaks) {
    case 'eof':
      return stream(...begin);
    case 'reset':
      return reset(...begin);
    case 'hang':
      return stall(...begin);
    case 'garbage':
      return stream(...begin, 'data: {"choices": [\n\n');
    case 'error':
      return stream(...begin, data({ error: { message: 'sorry', type: 'server_error' } }));
    default:
      return stream(...begin, ...endOf(saying).map(data), 'data: [DONE]\n\n');
  }
}

function* beginOf({ reasoning = [], text = [], calls = [], interleaved = false }: Saying): Generator {
  for (const piece of reasoning) yield delta({ reasoning_content: piece });
  for (const piece of text) yield delta({ content: piece });
  const open = (index: number, { id, name }: { id: string; name: string }) =>
    delta({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] });
  const piece = (index: number, args: string) => delta({ tool_calls: [{ index, function: { arguments: args } }] });
  if (!interleaved) {
    for (const [index, call] of calls.entries()) {
      yield open(index, call);
      for (const args of call.args) yield piece(index, args);
    }
    return;
  }
  for (const [index, call] of calls.entries()) yield open(index, call);
  for (let at = 0; calls.some(({ args }) => at < args.length); at++) {
    for (const [index, { args }] of calls.entries()) {
      const next = args[at];
      if (next !== undefined) yield piece(index, next);
    }
  }
}

function endOf({ calls = [], finish: reason, usage = usualUsage }: Saying): unknown[] {
  const wireReason = reason ?? (calls.length > 0 ? 'tool_calls' : 'stop');
  if (usage === 'none') return [finish(wireReason)];
  const { prompt, output, cached = 0, cacheWrite = 0 } = usage === 'twice' ? usualUsage : usage;
  const chunk = {
    choices: [],
    usage: {
      prompt_tokens: prompt,
      completion_tokens: output,
      prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: cacheWrite },
    },
  };
  return [finish(wireReason), chunk, ...(usage === 'twice' ? [chunk] : [])];
}
