import { expect, test } from 'vitest';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import { until } from '../../support/redis.ts';
import { clientWorld, request } from './options/client.ts';
import { RunWriter } from '../support/run-writer.ts';
import { CliCommand, millrace, settings } from './support/cli-process.ts';

/** A prefix with one run that was accepted, and a hand that plays the worker. */
async function runWorld() {
  const world = await clientWorld();
  const run = await world.mill.enqueue({ ...request, metadata: { shop: 'north' } });
  return { ...world, run, writer: new RunWriter(world.redis, world.keys, run.runId), env: settings(world.prefix) };
}

test('get prints the run as one JSON document', async () => {
  const { run, writer, env } = await runWorld();
  await writer.end();
  const { code, stdout } = await millrace(['get', run.runId, '--json'], { env });
  expect(JSON.parse(stdout)).toMatchObject({ runId: run.runId, status: 'completed', costMicrocents: 700 });
  expect(code).toBe(0);
});

test('get prints the answer, the cost and the metadata for people', async () => {
  const { run, writer, env } = await runWorld();
  await writer.end();
  const { stdout } = await millrace(['get', run.runId], { env });
  expect(stdout).toMatch(/^status +completed$/m);
  expect(stdout).toMatch(/^cost +\$0\.000007$/m);
  expect(stdout).toMatch(/^shop +north$/m);
  expect(stdout).toContain('It is on its way.');
});

test('a run of another prefix is not found', async () => {
  const { run } = await runWorld();
  const { env } = await runWorld();
  const { code, stderr } = await millrace(['get', run.runId], { env });
  expect(stderr).toContain('run_not_found');
  expect(code).toBe(2);
});

test('runs lists newest first, filters by status and agent, and keeps to the limit', async () => {
  const { mill, run, writer, env } = await runWorld();
  await writer.end('failed');
  const second = await mill.enqueue(request);
  const third = await mill.enqueue({ ...request, agent: 'other' });
  const listed = async (...args: string[]) => {
    const { stdout } = await millrace(['runs', '--json', ...args], { env });
    return (JSON.parse(stdout) as { runId: string }[]).map(({ runId }) => runId);
  };
  expect(await listed()).toEqual([third.runId, second.runId, run.runId]);
  expect(await listed('--status', 'failed')).toEqual([run.runId]);
  expect(await listed('--agent', 'other')).toEqual([third.runId]);
  expect(await listed('--limit', '2')).toEqual([third.runId, second.runId]);
  const { stdout, stderr } = await millrace(['runs', '--limit', '2'], { env });
  expect(stdout.split('\n')[0]).toMatch(/^RUN +STATUS +AGENT/);
  expect(stderr).toContain('More: millrace runs --limit 2 --cursor ');
});

test('runs prints the command of the next page, which has the same filters', async () => {
  const { mill, env } = await runWorld();
  for (let i = 0; i < 3; i++) await mill.enqueue({ ...request, batch: 'b' });
  const all = (await mill.list({ batch: 'b' })).runs.map(({ runId }) => runId);
  const found: string[] = [];
  let next: string | undefined = 'millrace runs --batch b --since 1h --limit 2 --json';
  for (let page = 0; next !== undefined; page++) {
    expect(page).toBeLessThan(3);
    const { code, stdout, stderr } = await millrace(next.split(' ').slice(1), { env });
    expect(code).toBe(0);
    found.push(...(JSON.parse(stdout) as { runId: string }[]).map(({ runId }) => runId));
    next = /More: (millrace runs --limit 2 --batch b --since \S+Z --json --cursor \S+)\n/.exec(stderr)?.[1];
  }
  expect(found).toEqual(all);
});

test('runs can be narrowed to a time', async () => {
  const { run, env } = await runWorld();
  const listed = async (...args: string[]) => {
    const { stdout } = await millrace(['runs', '--json', ...args], { env });
    return (JSON.parse(stdout) as { runId: string }[]).map(({ runId }) => runId);
  };
  expect(await listed('--since', '1h')).toEqual([run.runId]);
  expect(await listed('--until', '1h')).toEqual([]);
  const wrong = await millrace(['runs', '--since', 'soon'], { env });
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('Not a time: 90s, 30m')]);
});

test.each([
  ['get', ['--json']],
  ['cancel', ['--json']],
  ['tail', ['--json']],
  ['progress', ['--json']],
  ['approve', []],
  ['deny', []],
  ['redrive', []],
])('%s takes the beginning of a run id', async (name, flags) => {
  const { run, writer, env } = await runWorld();
  if (name === 'tail') await writer.end();
  const { stdout, stderr } = await millrace([name, run.runId.slice(0, 12).toLowerCase(), ...flags], { env });
  // What the command says about the run itself, by its whole id, or by what is wrong with it.
  expect(stdout + stderr).toMatch(name === 'progress' ? /There are no such notes/ : new RegExp(run.runId));
  const unknown = await millrace([name, 'ZZZZ', ...flags], { env });
  expect(unknown.stderr).toContain('run_not_found');
});

test('no runs is an empty list, not an error', async () => {
  const { prefix } = await clientWorld();
  const { code, stdout } = await millrace(['runs', '--json'], { env: settings(prefix) });
  expect(JSON.parse(stdout)).toEqual([]);
  expect(code).toBe(0);
});

test('cancel ends a run that waits', async () => {
  const { mill, run, env } = await runWorld();
  const { code, stdout } = await millrace(['cancel', run.runId, '--reason', 'not needed'], { env });
  expect(stdout).toBe(`${run.runId} is cancelled\n`);
  expect(code).toBe(0);
  expect(await mill.get(run.runId)).toMatchObject({ status: 'cancelled' });
});

test('cancel --drain asks a run that works to stop after its step', async () => {
  const { run, redis, keys, writer, env } = await runWorld();
  await writer.start();
  const { stdout } = await millrace(['cancel', run.runId, '--drain', '--json'], { env });
  expect(JSON.parse(stdout)).toMatchObject({ status: 'running', cancelling: true });
  expect(JSON.parse((await redis.hget(keys.run(run.runId), 'cancel')) ?? '{}')).toMatchObject({ drain: true });
});

test('a run that has ended cannot be cancelled', async () => {
  const { run, writer, env } = await runWorld();
  await writer.end();
  const { code, stderr } = await millrace(['cancel', run.runId], { env });
  expect(stderr).toContain('already_terminal');
  expect(code).toBe(1);
});

test('redrive queues a failed run again', async () => {
  const { mill, run, writer, env } = await runWorld();
  await writer.end('failed');
  const { code, stdout } = await millrace(['redrive', run.runId], { env });
  expect(stdout).toBe(`${run.runId} is queued again\n`);
  expect(code).toBe(0);
  expect(await mill.get(run.runId)).toMatchObject({ status: 'queued' });
});

test('redrive --all-failed takes every failed run and no other', async () => {
  const { mill, redis, keys, run, writer, env } = await runWorld();
  await writer.end('failed');
  const second = await mill.enqueue(request);
  await new RunWriter(redis, keys, second.runId).end('failed');
  await mill.enqueue(request);
  const { stdout } = await millrace(['redrive', '--all-failed', '--json'], { env });
  const { redriven } = JSON.parse(stdout) as { redriven: string[] };
  expect(redriven.toSorted()).toEqual([run.runId, second.runId].toSorted());
});

test('runs are counted, cancelled and redriven by a filter', async () => {
  const { mill, redis, keys, env } = await runWorld();
  const north = await mill.enqueue({ ...request, metadata: { shop: 'north pole' } });
  const broken = await mill.enqueue({ ...request, batch: 'nightly' });
  await new RunWriter(redis, keys, broken.runId).end('failed');
  const counted = await millrace(['runs', '--counts'], { env });
  expect(counted.stdout).toBe('2 queued\n1 failed\n3 in all\n');
  const redriven = await millrace(['redrive', '--batch', 'nightly'], { env });
  expect(redriven.stdout).toBe(`${broken.runId} is queued again\n`);
  const cancelled = await millrace(['cancel', '--metadata', 'shop=north pole', '--json'], { env });
  expect(JSON.parse(cancelled.stdout)).toEqual({ matched: 1, done: 1, failures: [] });
  expect(await mill.get(north.runId)).toMatchObject({ status: 'cancelled' });
  for (const args of [[], [north.runId, '--all'], ['--error', 'internall']]) {
    const wrong = await millrace(['cancel', ...args], { env });
    expect(wrong.code, args.join(' ')).toBe(2);
  }
  const rest = await millrace(['cancel', '--all'], { env });
  expect(rest.stdout).toBe('2 of 2 runs are cancelled or asked to stop\n');
  await mill.enqueue(request);
  const one = await millrace(['cancel', '--all'], { env });
  expect(one.stdout).toBe('1 of 1 run is cancelled or asked to stop\n');
});

test('a list by metadata goes on with the command that it prints', async () => {
  const { mill, env } = await runWorld();
  for (let i = 0; i < 2; i++) await mill.enqueue({ ...request, metadata: { shop: "the miller's" } });
  const { stderr } = await millrace(['runs', '--metadata', "shop=the miller's", '--limit', '1'], { env });
  expect(stderr).toContain(String.raw`--metadata 'shop=the miller'\''s' --cursor `);
});

test('redrive reports a run that has not failed and still takes the others', async () => {
  const { mill, run, writer, env } = await runWorld();
  await writer.end('failed');
  const waiting = await mill.enqueue(request);
  const { code, stdout, stderr } = await millrace(['redrive', waiting.runId, run.runId], { env });
  expect(stderr).toContain(`${waiting.runId}: validation`);
  expect(stdout).toBe(`${run.runId} is queued again\n`);
  expect(code).toBe(1);
});

test('tail --json prints every event of a run, one a line, and ends with it', async () => {
  const { run, writer, env } = await runWorld();
  await writer.text(3);
  const tail = new CliCommand(['tail', run.runId, '--json'], { env });
  await tail.says('"sequenceNumber":4');
  await writer.end();
  expect(await tail.exited).toBe(0);
  const events = tail.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as RunEvent);
  expect(events.map(({ sequenceNumber }) => sequenceNumber)).toEqual([1, 2, 3, 4, 5]);
  expect(events.at(-1)?.type).toBe('run.completed');
});

test('tail --after begins behind that event', async () => {
  const { run, writer, env } = await runWorld();
  await writer.text(3);
  await writer.end();
  const { stdout } = await millrace(['tail', run.runId, '--after', '3', '--json'], { env });
  expect(
    stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as RunEvent).sequenceNumber),
  ).toEqual([4, 5]);
});

test('tail without a run follows all of them until it is interrupted', async () => {
  const { mill, prefix } = await clientWorld();
  const tail = new CliCommand(['tail', '--json'], { env: settings(prefix) });
  await tail.says('Following all runs');
  const seen = await until('a run that the feed shows', async () => {
    const { runId } = await mill.enqueue(request);
    return tail.stdout.includes(runId) && runId;
  });
  expect(tail.stdout).toContain(`"runId":"${seen}"`);
  tail.signal('SIGINT');
  expect(await tail.exited).toBe(130);
});

test('agents lists what workers have announced', async () => {
  const { mill, prefix } = await clientWorld();
  await mill.registerAgents([{ id: 'support', model: 'gpt-5.2-mini', tools: ['lookup_order'] }]);
  const { stdout } = await millrace(['agents', '--json'], { env: settings(prefix) });
  expect(JSON.parse(stdout)).toEqual([{ id: 'support', model: 'gpt-5.2-mini', tools: ['lookup_order'] }]);
  const pretty = await millrace(['agents'], { env: settings(prefix) });
  expect(pretty.stdout).toMatch(/^support +gpt-5\.2-mini +lookup_order +off$/m);
});
