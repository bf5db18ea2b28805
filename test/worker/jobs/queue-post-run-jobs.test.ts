import type { Queue } from 'bullmq';
import { expect, test } from 'vitest';
import { postrunJob, postrunQueues } from '../../../src/shared/contract/queues.ts';
import { runRequest, type RunRecord, type RunRequestInput } from '../../../src/shared/contract/run.ts';
import { queuePostRunJobs } from '../../../src/worker/jobs/post-run-queue.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { aRecord } from '../../contract/run-fixtures.ts';

interface Added {
  readonly queue: string;
  readonly name: string;
  readonly data: unknown;
  readonly opts: { readonly jobId?: string; readonly priority?: number };
}

async function dispatched(
  request: Partial<RunRequestInput>,
  {
    embeds = true,
    agent = {},
    ...record
  }: Partial<RunRecord> & { embeds?: boolean; agent?: Partial<AgentSource> } = {},
): Promise<Added[]> {
  const added: Added[] = [];
  const loaded = loadedFrom(defineAgent({ id: 'support', model: 'm', ...agent }));
  const queues = {
    get: (queue: string) =>
      ({
        addBulk: async (jobs: Omit<Added, 'queue'>[]) => added.push(...jobs.map((job) => ({ queue, ...job }))),
      }) as unknown as Queue,
  };
  const run = aRecord({
    request: runRequest.parse({ agent: 'support', input: 'hi', thread: 'talk', ...request }),
    queue: 'runs',
    ...record,
  });
  await queuePostRunJobs(run, { queues, agents: new Map([['support', loaded]]), embeds });
  return added;
}

test('each kind is a job of its own, in the queue beside that of its run, behind everything else', async () => {
  const jobs = await dispatched({ batch: 'b1' });
  expect(jobs.map(({ queue, name, opts }) => [queue, name, (opts.priority ?? 0) > 0])).toEqual([
    ['runs-postrun', 'postrun', true],
    ['runs-postrun', 'postrun', true],
  ]);
  const data = jobs.map((job) => postrunJob.parse(job.data));
  expect(data).toMatchObject([
    { kind: 'postrun', postRun: 'title', threadId: 'talk', agentId: 'support', batch: 'b1' },
    { kind: 'postrun', postRun: 'embeddings', threadId: 'talk', agentId: 'support', batch: 'b1' },
  ]);
});

test('a thread has one job for its title, however many runs end, and each run one for its embeddings', async () => {
  const ids = async (runId: string, thread: string) =>
    (await dispatched({ thread }, { runId })).map(({ opts }) => opts.jobId);
  const [one, two] = ['01K9Z5N3T8R6V2X4B7C1D0E9AA', '01K9Z5N3T8R6V2X4B7C1D0E9BB'];
  const [first, again, elsewhere] = [await ids(one, 'a'), await ids(two, 'a'), await ids(one, 'b')];
  expect(first[0]).toBe(again[0]);
  expect(first[1]).not.toBe(again[1]);
  expect(first[0]).not.toBe(elsewhere[0]);
  for (const id of [...first, ...elsewhere]) expect(id).not.toContain(':');
});

test.each<[string, Parameters<typeof dispatched>[1] & object, string[]]>([
  ['no embedder', { embeds: false }, ['title']],
  ['no wish for titles', { agent: { postRun: { title: false } } }, ['embeddings']],
  ['no wish for embeddings', { agent: { postRun: { embeddings: false } } }, ['title']],
  ['no wish for either', { agent: { postRun: { title: false, embeddings: false } } }, []],
  ['secrets to keep', { agent: { sensitivity: 'secret' } }, []],
])('with %s there is a job for %j', async (_, given, kinds) => {
  const jobs = await dispatched({}, given);
  expect(jobs.map(({ data }) => postrunJob.parse(data).postRun)).toEqual(kinds);
});

test('a run without a thread is followed by nothing', async () => {
  expect(await dispatched({ thread: undefined })).toEqual([]);
});

test('what follows a run in quarantine goes to the queue that it came from', async () => {
  expect((await dispatched({ queue: 'slow' }, { queue: 'quarantine' }))[0]?.queue).toBe('slow-postrun');
  expect((await dispatched({}, { queue: 'quarantine' }))[0]?.queue).toBe('runs-postrun');
  expect(postrunQueues(['runs', 'slow', 'quarantine'])).toEqual(['runs-postrun', 'slow-postrun']);
});
