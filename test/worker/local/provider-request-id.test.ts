import { expect, test } from 'vitest';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { chat, startRawProvider, status } from '../../support/raw-provider.ts';

test('the id that the provider gives a request is reported with its attempt, whether it failed or not', async () => {
  await using provider = await startRawProvider([
    status(500, {}, { 'x-request-id': 'req_refused' }),
    chat(() => ({ text: 'Hello.' })),
  ]);
  const agent = defineAgent({ id: 'plain', model: 'any', retry: { max: 2 } });
  const handle = createAgentWith(agent, { env: { OPENAI_BASE_URL: provider.url } });
  const calls: object[] = [];
  for await (const event of handle.stream('Hi')) if (event.type === 'llm.call') calls.push(event);
  expect(calls).toMatchObject([
    { outcome: 'failed', providerRequestId: 'req_refused' },
    { outcome: 'succeeded', providerRequestId: 'chatcmpl-raw' },
  ]);
});
