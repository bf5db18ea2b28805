import { expect, test } from 'vitest';
import { keysFor } from '../../src/shared/state/keys.ts';
import { eventsOf } from '../support/check-run.ts';
import { Gates } from '../support/gates.ts';
import { largeText } from '../support/large-text.ts';
import { chat, startRawProvider, type RawRequest } from '../support/raw-provider.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

const pageBytes = 1024 * 1024;
/** What a request may have beside the result: instructions, tools and the rest of the conversation. */
const besideBytes = 8 * 1024;

const toolMessages = (body: RawRequest['body']): string[] =>
  body.messages
    .filter(({ role }: { role: string }) => role === 'tool')
    .map(({ content }: { content: string }) => content);

interface Page {
  readonly content: string;
  readonly offset: number;
  readonly bytes: number;
  readonly totalBytes: number;
  readonly eof: boolean;
}

test('all of a result that is far too large can be read, also from another worker', async () => {
  const gates = new Gates();
  const pages: Page[] = [];
  let handle = '';
  await using provider = await startRawProvider(async (response, request) => {
    const [first, ...read] = toolMessages(request.body);
    if (first === undefined) return chat(() => ({ toolCalls: [{ name: 'dump', args: {} }] }))(response, request);
    handle = /spill:[0-9a-f]+/.exec(first)?.[0] ?? '';
    await gates.passed('the result is there');
    pages.splice(0, pages.length, ...read.map((text) => JSON.parse(text) as Page));
    const last = pages.at(-1);
    const args = { handle, offset: last ? last.offset + last.bytes : 0, maxBytes: pageBytes };
    const reply = last?.eof ? { text: 'I have read it.' } : { toolCalls: [{ name: 'read_result', args }] };
    return chat(() => reply)(response, request);
  });
  const world = await makeWorld({ env: { OPENAI_BASE_URL: provider.url } });
  const run = await world.mill.enqueue({ agent: 'reader', input: 'Read it all.' });
  await gates.reached('the result is there');
  expect(JSON.stringify(provider.requests.at(-1)?.body).length).toBeLessThanOrEqual(50 * 1024 + besideBytes);

  world.worker.signal('SIGKILL');
  await world.worker.exited;
  await world.addWorker();
  gates.openAll();
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'I have read it.' } });
  const whole = largeText(5 * 1024 * 1024);
  expect(pages.map(({ content }) => content).join('') === whole, 'the pages are the text').toBe(true);
  expect(pages.length).toBeGreaterThan(4);
  expect(eventsOf(observed, 'tool.execute.end')[0]).toMatchObject({ toolName: 'dump', resultHandle: handle });
});

test('a secret result leaves nothing behind but what the model was shown', async () => {
  await using provider = await startRawProvider(
    chat((body) =>
      toolMessages(body).length === 0 ? { toolCalls: [{ name: 'vault', args: {} }] } : { text: 'I keep it.' },
    ),
  );
  const world = await makeWorld({ env: { OPENAI_BASE_URL: provider.url } });
  const run = await world.mill.enqueue({ agent: 'reader', input: 'Look.' });
  const { view } = await world.ended(run);
  expect(view.status).toBe('completed');
  const redis = await testRedis('work', world.fleet.redisUrl);
  const kept = await redis.keys(`${world.fleet.prefix}:{${run.runId}}:*`);
  const { run: record, journal, events } = keysFor(world.fleet.prefix);
  expect(kept.filter((key) => ![record, journal, events].some((name) => name(run.runId) === key))).toEqual([]);
});

test('what was kept for a run is gone once it has ended', async () => {
  await using provider = await startRawProvider(
    chat((body) => (toolMessages(body).length === 0 ? { toolCalls: [{ name: 'dump', args: {} }] } : { text: 'Fine.' })),
  );
  const world = await makeWorld({ env: { OPENAI_BASE_URL: provider.url } });
  const run = await world.mill.enqueue({ agent: 'reader', input: 'Look.' });
  const { view } = await world.ended(run);
  expect(view.status).toBe('completed');
  const redis = await testRedis('work', world.fleet.redisUrl);
  await until('nothing is kept', async () => {
    const keys = await redis.keys(`${world.fleet.prefix}:{${run.runId}}:*`);
    return keys.every((key) => !key.includes('artifact'));
  });
});
