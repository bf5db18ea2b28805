import { LLMock } from '@copilotkit/aimock';
import { nextOf, tokensPerCall } from './plan.ts';

/** A model server that others wrote, following the same plans. Its idea of the wire format is not ours. */
export async function startAimock(): Promise<{ readonly baseUrl: string; stop(): Promise<void> }> {
  const mock = new LLMock({ port: 0, logLevel: 'silent', chunkSize: 4 });
  const usage = { prompt_tokens: tokensPerCall.input, completion_tokens: tokensPerCall.output };
  mock.on({ predicate: () => true }, ({ messages }) => {
    const { text = '', calls } = nextOf(messages).step;
    if (!calls) return { content: text, usage };
    const toolCalls = calls.map(({ name, args = {} }, i) => ({
      id: `call_${i}`,
      name,
      arguments: JSON.stringify(args),
    }));
    return text ? { content: text, toolCalls, usage } : { toolCalls, usage };
  });
  await mock.start();
  return { baseUrl: `${mock.url}/v1`, stop: () => mock.stop() };
}
