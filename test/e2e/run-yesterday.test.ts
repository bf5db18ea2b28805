import { join } from 'node:path';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import OpenAI, { NotFoundError } from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { millrace } from '../producer/cli/support/cli-process.ts';
import { call } from '../support/http.ts';
import { planInput } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true, env: { RESULT_TTL_S: '1', EVENT_LOG_TTL_S: '1' } });

/** A run whose call failed, long enough ago that only the archive has it. */
async function failedYesterday(id: string): Promise<RunHandle> {
  const { world } = shared;
  const faults = Array.from({ length: 20 }, () => ({ kind: 'status', status: 400 }) as const);
  const run = await world.submit(
    'gated',
    [
      {
        text: 'I look.',
        calls: [
          { name: 'look', args: { id } },
          { name: 'look', args: { id: 7, of: id } },
        ],
      },
      { text: '-', faults },
    ],
    { metadata: { shop: id } },
  );
  await world.ended(run);
  await until('only the archive has it', async () => !(await hasRecord(run.runId)));
  return run;
}

async function hasRecord(runId: string): Promise<boolean> {
  const { prefix, redisUrl } = shared.world.fleet;
  const redis = await testRedis('work', redisUrl);
  return (await redis.exists(keysFor(prefix).run(runId), keysFor(prefix).events(runId))) > 0;
}

const cli = (...args: string[]) => {
  const { redisUrl, prefix } = shared.world.fleet;
  return millrace(args, { env: { REDIS_URL: redisUrl, MILLRACE_PREFIX: prefix } });
};

test('a run that failed yesterday is in the list, and one command shows the call that failed and its arguments', async () => {
  const { world } = shared;
  const { runId } = await failedYesterday('north');
  const listed = await cli('runs', '--status', 'failed', '--json');
  expect(JSON.parse(listed.stdout)).toMatchObject([{ runId, status: 'failed', agent: 'gated' }]);
  const { stdout } = await cli('get', runId.slice(0, 24), '--steps');
  expect(stdout).toContain(`${runId} failed`);
  expect(stdout).toContain('→ look {"id":"north"}');
  expect(stdout).toContain('✗ look {"id":7,"of":"north"}');
  expect(stdout).toContain('invalid_input: ');
  expect(stdout).toContain('step 2  gated');
  expect(stdout).toContain('failed: validation: ');
  const { body } = await call('GET', `${world.url}/v1/runs/${runId}/steps`);
  expect(body).toMatchObject({
    source: 'archive',
    steps: [
      { calls: [{ args: { id: 'north' } }, { args: { id: 7 }, error: { kind: 'invalid_input' } }] },
      { stepNumber: 2 },
    ],
  });
});

test('lists, counts, the run, its result and its events go on from the archive', async () => {
  const { world } = shared;
  const { mill, url } = world;
  const { runId } = await failedYesterday('south');
  const filter = { metadata: { shop: 'south' }, agent: 'gated' } as const;
  expect((await mill.list(filter)).runs).toMatchObject([{ runId, status: 'failed', metadata: { shop: 'south' } }]);
  expect((await mill.list({ ...filter, status: 'completed' })).runs).toEqual([]);
  expect(await mill.count(filter)).toEqual({ total: 1, byStatus: { failed: 1 }, complete: true });
  const run = await call('GET', `${url}/v1/runs/${runId}`);
  expect(run).toMatchObject({ status: 200, body: { status: 'failed', request: { agent: 'gated' } } });
  expect(await mill.result(runId)).toMatchObject({ status: 'failed', error: { code: expect.any(String) } });
  const events = await Array.fromAsync(mill.events(runId));
  expect(events.at(0)).toMatchObject({ type: 'run.queued', sequenceNumber: 1 });
  expect(events.at(-1)).toMatchObject({ type: 'run.failed' });
  expect(events.some(({ type }) => type === 'text.delta')).toBe(false);
  let last = 0;
  for (const { sequenceNumber, omitted = 0 } of events) {
    expect(sequenceNumber).toBe(last + omitted + 1);
    last = sequenceNumber;
  }
  expect(events.some(({ omitted }) => omitted !== undefined)).toBe(true);
  const after = events.at(-3)?.sequenceNumber ?? 0;
  expect(await Array.fromAsync(mill.events(runId, { after }))).toHaveLength(2);
  const tail = await cli('tail', runId);
  expect(tail.code).toBe(1);
  expect(tail.stderr).toContain('→ look');
});

test('a run of which only the archive is left is skipped by a redrive of many, and says why alone', async () => {
  const { mill } = shared.world;
  const { runId } = await failedYesterday('west');
  const answer = { redriven: [], late: [], skipped: 1, more: false };
  expect(await mill.redrive({ metadata: { shop: 'west' } })).toEqual(answer);
  const http = await call('POST', `${shared.world.url}/v1/runs/redrive`, { metadata: { shop: 'west' } });
  expect(http.body).toEqual({ matched: 1, done: 0, ...answer });
  const printed = await cli('redrive', '--metadata', 'shop=west', '--json');
  expect([printed.code, JSON.parse(printed.stdout)]).toEqual([0, { redriven: [], refused: [], skipped: 1 }]);
  expect((await cli('redrive', '--metadata', 'shop=west')).stderr).toBe('1 run skipped: only the archive has it\n');
  await expect(mill.redrive({ runId })).rejects.toMatchObject({
    code: 'gone',
    message: expect.stringContaining('Start a new run'),
  });
  const never = '01K9Z5N3T8R6V2X4B7C1D0E9FG';
  await expect(mill.redrive({ runId: never })).rejects.toMatchObject({ code: 'run_not_found' });
});

test('an export is one file with everything, the definition of the agent among it', async () => {
  const { runId } = await failedYesterday('west');
  const folder = mkdtempSync(join(tmpdir(), 'export-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'run.json');
  expect(await cli('export', runId, '-o', file)).toMatchObject({ code: 0, stdout: '' });
  const document: unknown = JSON.parse(readFileSync(file, 'utf8'));
  expect(document).toMatchObject({
    kind: 'millrace.run-export',
    v: 1,
    run: { runId, status: 'failed' },
    request: { agent: 'gated', metadata: { shop: 'west' } },
    agent: { id: 'gated', tools: expect.any(Array) },
    steps: { source: 'archive' },
    children: [],
  });
});

test('what is past its time is gone, and what never was is not found', async () => {
  const { world } = shared;
  const { runId } = await failedYesterday('east');
  const { prefix, redisUrl } = world.fleet;
  const redis = await testRedis('work', redisUrl);
  await redis.del(keysFor(prefix).blobs(`run-${runId}`));
  for (const path of ['', '/steps', '/export', '/events', '/result']) {
    const past = await call('GET', `${world.url}/v1/runs/${runId}${path}`);
    expect([path, past.status, past.body.error.code]).toEqual([path, 410, 'gone']);
    const never = await call('GET', `${world.url}/v1/runs/01K9Z5N3T8R6V2X4B7C1D0E9FG${path}`);
    expect([path, never.status, never.body.error.code]).toEqual([path, 404, 'run_not_found']);
  }
  expect((await world.mill.list({ metadata: { shop: 'east' } })).runs).toEqual([]);
});

test('a response of yesterday is read, continued and deleted as one of today', async () => {
  const { world } = shared;
  const client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: 'not-needed', maxRetries: 0 });
  const first = await client.responses.create({ model: 'plain', input: planInput({ text: 'I am Kim.' }) });
  const runId = first.id.replace('resp_', '');
  const { prefix, redisUrl } = world.fleet;
  const [redis, keys] = [await testRedis('work', redisUrl), keysFor(prefix)];
  await until('it is in the archive', async () => (await redis.hexists(keys.run(runId), 'unarchived')) === 0);
  // A run with an execution id stays for a day.
  for (const key of [keys.run, keys.journal, keys.events]) await redis.pexpire(key(runId), 1);
  await until('only the archive has it', async () => !(await hasRecord(runId)));
  expect(await client.responses.retrieve(first.id)).toMatchObject({ status: 'completed', output_text: 'I am Kim.' });
  const second = await client.responses.create({
    model: 'plain',
    input: planInput({ text: 'Kim, as I said.' }),
    previous_response_id: first.id,
  });
  const [asked] = world.provider.callsOf(second.id.replace('resp_', ''));
  expect(asked?.messages.map(({ content }) => content)).toContain('I am Kim.');
  await client.responses.delete(first.id);
  await expect(client.responses.retrieve(first.id)).rejects.toBeInstanceOf(NotFoundError);
  await expect(world.mill.get(runId)).rejects.toMatchObject({ code: 'run_not_found' });
});
