import { expect, test } from 'vitest';
import { call } from '../support/http.ts';
import { startRawProvider } from '../support/raw-provider.ts';
import { responses } from '../support/raw-responses.ts';
import { makeWorld } from '../support/world.ts';
import { scratchFile } from '../worker/llm/scratch-file.ts';

test('a thread goes on with the session of its provider, keeps it over a bad turn, and begins anew where it is gone', async () => {
  const known = new Set<string>();
  let broken = false;
  const provider = await startRawProvider(async (response, request) => {
    const { previous_response_id: before } = request.body as { previous_response_id?: string };
    if (broken || (before !== undefined && !known.has(before))) {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { message: 'no such response', code: 'previous_response_not_found' } }));
      return;
    }
    known.add('resp_raw');
    await responses({ text: ['Hello again.'] })(response, request);
  });
  const file = scratchFile(
    'providers.yaml',
    `- { id: openai, kind: openai-responses, baseUrl: "${provider.url}", sessions: true, models: [{ model: gpt-4o-mini }] }\n`,
  );
  const world = await makeWorld({ producer: true, env: { MILLRACE_PROVIDERS: file } });
  const say = async (input: string) => {
    const run = await world.mill.enqueue({ agent: 'plain', input, thread: 'kept' });
    return await run.result();
  };
  const last = () => provider.requests.at(-1)?.body as { previous_response_id?: string; input: readonly unknown[] };
  const session = async () =>
    ((await call('GET', `${world.url}/v1/threads/kept`)).body as { session?: unknown }).session;

  expect((await say('Hello.')).status).toBe('completed');
  expect(await session()).toMatchObject({ provider: 'openai' });
  await say('Do you know me?');
  expect(last()).toMatchObject({ previous_response_id: 'resp_raw' });
  expect(JSON.stringify(last().input)).not.toContain('Hello.');

  broken = true;
  expect((await say('And now?')).status).toBe('failed');
  expect(await session(), 'a bad turn leaves it as it was').toMatchObject({ provider: 'openai' });
  broken = false;

  known.clear();
  const sent = provider.requests.length;
  expect(await say('Still there?')).toMatchObject({ status: 'completed', text: 'Hello again.' });
  expect(provider.requests.length - sent).toBe(2);
  expect(provider.requests.at(-2)?.body).toMatchObject({ previous_response_id: 'resp_raw' });
  expect(last()).not.toHaveProperty('previous_response_id');
  expect(JSON.stringify(last().input)).toContain('Do you know me?');
  await provider[Symbol.asyncDispose]();
});
