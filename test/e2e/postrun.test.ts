import { inject, expect, onTestFinished, test } from 'vitest';
import { Millrace } from '../../src/producer/index.ts';
import { defineAgent, startWorker, type Embedder } from '../../src/worker/index.ts';
import { createScriptedProvider } from '../../src/worker/llm/backends/scripted.ts';
import { testPrefix, testRedis, until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';

async function turn(world: World, thread: string, text: string) {
  const run = await world.submit('plain', [{ text }], { thread });
  expect((await run.result()).text).toBe(text);
  return run;
}

async function eventsOf(mill: Millrace, thread: string) {
  return (await mill.threads.events(thread)).events;
}

/** Resolves once no job is left of what follows runs. */
async function nothingFollows({ fleet }: World): Promise<void> {
  const redis = await testRedis('work', fleet.redisUrl);
  const left = async () =>
    (await redis.keys(`${fleet.prefix}:runs-postrun:*`)).filter((key) => /:(title|embeddings)-[^:]+$/.test(key));
  await until('nothing follows any run', async () => (await left()).length === 0);
}

test('a thread gets its title after the second message, and the call is billed', async () => {
  const world = await makeWorld({ producer: true });
  await turn(world, 'talk', 'one');
  const second = await turn(world, 'talk', 'two');
  await until('the thread has a title', async () => (await world.mill.threads.get('talk')).title !== undefined);
  expect((await world.mill.threads.get('talk')).title).toBe('A thread about plans');
  expect(world.provider.titled).toEqual([second.runId]);
  const answer = await fetch(`${world.url}/v1/threads/talk/events`);
  expect(JSON.parse((await answer.text()).trim())).toMatchObject({
    type: 'thread.title_generated',
    title: 'A thread about plans',
    sequenceNumber: 1,
    runId: second.runId,
    threadId: 'talk',
    agentId: 'plain',
  });
  const { rows } = await world.mill.costs({ by: ['agent'] });
  const { costMicrocents } = await world.mill.get(second.runId);
  expect(rows).toMatchObject([
    { agent: 'plain', attempts: 2, costMicrocents: 2 * costMicrocents },
    { agent: '_system', attempts: 1, costMicrocents },
  ]);
  // The post-run jobs of a run emit nothing into its log.
  await world.ended(second);
  await turn(world, 'talk', 'three');
  await nothingFollows(world);
  expect(world.provider.titled).toHaveLength(1);
});

test('a worker is killed while it makes a title, and another one makes it', async () => {
  const world = await makeWorld();
  await turn(world, 'talk', 'one');
  world.provider.blockTitles = true;
  await turn(world, 'talk', 'two');
  await world.provider.gates.reached('title');
  // The next message does not wait for the title.
  await turn(world, 'talk', 'three');
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  await world.addWorker();
  world.provider.gates.open('title');
  await until('the thread has a title', async () => (await eventsOf(world.mill, 'talk')).length > 0);
  expect((await eventsOf(world.mill, 'talk')).map(({ type }) => type)).toEqual(['thread.title_generated']);
  expect((await world.mill.threads.get('talk')).title).toBe('A thread about plans');
  expect(world.provider.titled.length).toBeGreaterThan(1);
});

test('a draining worker hands the title it is making to another one', async () => {
  const world = await makeWorld({ env: { SHUTDOWN_GRACE_MS: '300' } });
  await turn(world, 'talk', 'one');
  world.provider.blockTitles = true;
  await turn(world, 'talk', 'two');
  await world.provider.gates.reached('title');
  world.worker.signal('SIGTERM');
  expect(await world.worker.exited).toMatchObject({ code: 0 });
  expect(await eventsOf(world.mill, 'talk')).toEqual([]);
  world.provider.blockTitles = false;
  await world.addWorker();
  await until('the thread has a title', async () => (await world.mill.threads.get('talk')).title !== undefined);
  expect(world.provider.titled).toHaveLength(2);
});

test('an embedder that hangs delays neither answers nor titles', async () => {
  const [redis, prefix] = [inject('redisUrl'), testPrefix()];
  const asked: (readonly string[])[] = [];
  const embedder: Embedder = {
    id: 'vectors',
    model: 'embed-3',
    embed: async (texts) => {
      asked.push(texts);
      return await new Promise(() => {});
    },
    keep: async () => {},
  };
  const provider = createScriptedProvider(({ requestId }) => ({
    text: requestId.startsWith('title:') ? 'About a certain order' : 'It was sent.',
  }));
  const agents = [defineAgent({ id: 'support', model: 'gpt-5.2-mini' })];
  const worker = await startWorker({ redis, prefix, agents, provider, embedder });
  onTestFinished(() => worker.stop(100));
  const mill = new Millrace({ redis, prefix });
  onTestFinished(() => mill.close());
  for (const input of ['Where is order 7?', 'And when?'])
    expect((await (await mill.enqueue({ agent: 'support', input, thread: 't' })).result()).text).toBe('It was sent.');
  await until('the thread has a title', async () => (await mill.threads.get('t')).title === 'About a certain order');
  await until('both turns are being embedded', () => asked.length === 2);
  expect(new Set(asked.map(([user]) => user))).toEqual(new Set(['Where is order 7?', 'And when?']));
});

test('what an embedder could not make is an event of the thread, and counted', async () => {
  const [redis, prefix] = [inject('redisUrl'), testPrefix()];
  const embedder: Embedder = {
    id: 'vectors',
    model: 'embed-3',
    embed: async () => {
      throw new Error('vectors answered 401');
    },
    keep: async () => {},
  };
  const provider = createScriptedProvider(() => ({ text: 'It was sent.' }));
  const agents = [defineAgent({ id: 'support', model: 'gpt-5.2-mini', postRun: { title: false } })];
  const worker = await startWorker({ redis, prefix, agents, provider, embedder });
  onTestFinished(() => worker.stop(100));
  const mill = new Millrace({ redis, prefix });
  onTestFinished(() => mill.close());
  await mill.enqueue({ agent: 'support', input: 'Where is order 7?', thread: 't' });
  const counted = await until('it is counted', async () => {
    const { counters, queues } = await mill.diagnose();
    return counters['postrun_jobs_failed'] === undefined ? undefined : { counters, queues };
  });
  expect(counted).toMatchObject({ counters: { postrun_jobs_failed: 1 }, queues: { 'runs-postrun': { waiting: 0 } } });
  expect((await mill.threads.events('t')).events).toMatchObject([
    { type: 'postrun.failed', effect: 'embeddings', error: { code: 'internal' } },
  ]);
  const metrics = await fetch(`http://127.0.0.1:${worker.healthPort}/metrics`);
  expect(await metrics.text()).toContain('millrace_postrun_jobs_failed_total{kind="embeddings"} 1\n');
});

test('what an embedder made is an event of the thread', async () => {
  const [redis, prefix] = [inject('redisUrl'), testPrefix()];
  const kept: unknown[] = [];
  const embedder: Embedder = {
    id: 'vectors',
    model: 'embed-3',
    microcentsPerMillionTokens: 2_000_000,
    embed: async (texts) => ({ vectors: texts.map(() => [1, 2]), inputTokens: 10 }),
    keep: async (messages) => void kept.push(...messages),
  };
  const provider = createScriptedProvider(() => ({ text: 'It was sent.' }));
  const agents = [defineAgent({ id: 'support', model: 'gpt-5.2-mini', postRun: { title: false } })];
  const worker = await startWorker({ redis, prefix, agents, provider, embedder });
  onTestFinished(() => worker.stop(100));
  const mill = new Millrace({ redis, prefix });
  onTestFinished(() => mill.close());
  const { runId } = await mill.enqueue({ agent: 'support', input: 'Where is order 7?', thread: 't' });
  const events = await until('the vectors are there', async () => {
    const events = await mill.threads.events('t').catch(() => ({ events: [] }));
    return events.events.length > 0 ? events.events : undefined;
  });
  expect(events).toMatchObject([{ type: 'thread.embedding_done', model: 'embed-3', messages: 2, runId }]);
  expect(kept).toMatchObject([
    { role: 'user', text: 'Where is order 7?', vector: [1, 2], seq: 1 },
    { role: 'assistant', text: 'It was sent.', vector: [1, 2], seq: 2 },
  ]);
  const { rows } = await mill.costs({ by: ['model'] });
  expect(rows).toContainEqual(expect.objectContaining({ model: 'embed-3', costMicrocents: 20, attempts: 1 }));
});
