import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { chat, data, startRawProvider, status, stream, type Reply } from '../../support/raw-provider.ts';

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

test('the header of an answer that began is the id of its request, also where the answer breaks off', async () => {
  const headed =
    (id: string, answer: Reply): Reply =>
    async (response, request) => {
      response.setHeader('x-request-id', id);
      await answer(response, request);
    };
  const broken = stream(data({ error: { message: 'broken', type: 'server_error' } }));
  await using provider = await startRawProvider([
    headed('req_broken', broken),
    headed(
      'req_whole',
      chat(() => ({ text: 'Hello.' })),
    ),
  ]);
  const agent = defineAgent({ id: 'plain', model: 'any', retry: { max: 2 } });
  const handle = createAgentWith(agent, { env: { OPENAI_BASE_URL: provider.url } });
  const calls: object[] = [];
  for await (const event of handle.stream('Hi')) if (event.type === 'llm.call') calls.push(event);
  expect(calls).toMatchObject([
    { outcome: 'failed', providerRequestId: 'req_broken' },
    { outcome: 'succeeded', providerRequestId: 'req_whole' },
  ]);
});

test('the id that the provider was sent is that of one step of the run, and of no other', async () => {
  await using provider = await startRawProvider([
    chat(() => ({ toolCalls: [{ name: 'look', args: {} }] })),
    chat(() => ({ text: 'Hello.' })),
  ]);
  const look = defineTool({ name: 'look', description: 'Looks.', inputSchema: z.object({}), execute: () => 'seen' });
  const handle = createAgentWith(defineAgent({ id: 'plain', model: 'any', tools: [look] }), {
    env: { OPENAI_BASE_URL: provider.url },
  });
  const calls: { readonly requestId: string }[] = [];
  const stream = handle.stream('Hi');
  for await (const event of stream) if (event.type === 'llm.call') calls.push(event);
  const { runId } = await stream.result;
  const sent = provider.requests.map(({ headers }) => headers['idempotency-key']);
  expect(sent).toEqual([`${runId}:step:1`, `${runId}:step:2`]);
  expect(calls.map(({ requestId }) => requestId)).toEqual(sent);
});
