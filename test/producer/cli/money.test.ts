import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { scratchFolder } from '../batch/support.ts';
import { clientWorld } from './options/client.ts';
import { dayFromToday, spend } from '../support/costs.ts';
import { RunWriter } from '../support/run-writer.ts';
import { suspendedRun } from '../support/suspended.ts';
import { CliCommand, millrace, settings } from './support/cli-process.ts';
import { until } from '../../support/redis.ts';

test('costs are a table with totals, or a JSON document', async () => {
  const world = await clientWorld();
  const env = settings(world.prefix);
  await spend(world, dayFromToday(0), {}, 1_000_000);
  await spend(world, dayFromToday(-1), { model: 'large' }, 2_000_000, false);
  const shown = await millrace(['costs', '--group-by', 'model'], { env });
  expect(shown.code).toBe(0);
  expect(shown.stdout).toContain(`default, ${dayFromToday(-6)} to ${dayFromToday(0)} (UTC)`);
  expect(shown.stdout).toMatch(/^openai\/large\s+1\s+100\s+0\s+10\s+\$0\.0200$/m);
  expect(shown.stdout).toMatch(/^total\s+2\s+200\s+0\s+20\s+\$0\.0300$/m);
  expect(shown.stderr).toContain('without a known price, which count as 0: 1.');
  const json = await millrace(['costs', '--group-by', 'day', '--json'], { env });
  expect(JSON.parse(json.stdout).totals.costMicrocents).toBe(3_000_000);
  const recent = await millrace(['costs', '--from', 'yesterday', '--to', 'today', '--json'], { env });
  expect(JSON.parse(recent.stdout)).toMatchObject({ from: dayFromToday(-1), to: dayFromToday(0) });
  const wrong = await millrace(['costs', '--from', 'monday'], { env });
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('Not a day: YYYY-MM-DD, today, yesterday')]);
});

test('a budget is set, topped up and shown', async () => {
  const { prefix } = await clientWorld();
  const env = settings(prefix);
  const set = await millrace(['budget', 'set', 'batch', 'nightly', '10', '--on-exceed', 'pause_for_approval'], { env });
  expect([set.code, set.stdout]).toEqual([0, 'batch nightly: $0.0000 of $10.0000 spent, passing it pauses a run\n']);
  const add = ['budget', 'top-up', 'batch', 'nightly', '5', '--key', 'k1', '--json'];
  await millrace(add, { env });
  expect(JSON.parse((await millrace(add, { env })).stdout).capMicrocents).toBe(1_500_000_000);
  const got = await millrace(['budget', 'get', 'batch', 'nightly'], { env });
  expect(got.stdout).toContain('of $15.0000');
  const wrong = await millrace(['budget', 'set', 'tenant', 'default', '5'], { env });
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('only a batch has a budget')]);
});

test('approve --top-up adds to the account that the run waits for, and the run stays until it is enough', async () => {
  const world = await clientWorld();
  await world.mill.budgets.set('batch', 'b1', { maxCostUsd: 1 });
  const run = await suspendedRun(world, [{ kind: 'budget', id: 'batch:b1' }]);
  const { stdout } = await millrace(['approve', run.runId, '--top-up', '5'], { env: settings(world.prefix) });
  expect(stdout).toBe(
    `batch b1: $0.0000 of $6.0000 spent, passing it fails a run\n${run.runId} goes on as soon as that is enough\n`,
  );
  expect((await run.get()).status).toBe('suspended');
});

test('a batch with a budget says how to give it more when all of it waits', async () => {
  const world = await clientWorld();
  const { mill, redis, keys, prefix } = world;
  const folder = scratchFolder();
  writeFileSync(join(folder, 'in.jsonl'), '"a"\n"b"\n');
  const out = join(folder, 'out.jsonl');
  const args = [
    'batch',
    join(folder, 'in.jsonl'),
    '--agent',
    'support',
    '-o',
    out,
    '--max-cost',
    '0.5',
    '--on-exceed',
    'pause_for_approval',
  ];
  const command = new CliCommand(args, { env: settings(prefix) });
  const runs = await until('both runs', async () => {
    const page = await mill.list({ status: 'queued' });
    return page.runs.length === 2 ? page.runs : undefined;
  });
  const batch = runs[0]?.batch ?? '';
  expect(runs[1]?.batch).toBe(batch);
  expect(await mill.budgets.get('batch', batch)).toMatchObject({
    capMicrocents: 50_000_000,
    onExceed: 'pause_for_approval',
  });
  const pending = [{ kind: 'budget' as const, id: `batch:${batch}`, requestedAt: new Date().toISOString() }];
  const writers = runs.map(({ runId }) => new RunWriter(redis, keys, runId, 2));
  const fields = { status: 'suspended', pending: JSON.stringify(pending) };
  for (const writer of writers) await writer.emit([{ type: 'run.suspended', reason: 'budget', pending }], { fields });
  await command.says(`millrace budget top-up batch ${batch} USD`);
  for (const writer of writers) await writer.end();
  expect(await command.exited).toBe(0);
});

test.each([
  [['run', 'a', 'b', '--on-exceed', 'pause_for_approval'], '--on-exceed needs --max-cost'],
  [['batch', 'x.jsonl', '-o', 'y', '--on-exceed', 'pause_for_approval'], '--on-exceed needs --max-cost'],
  [['run', 'a', 'b', '--max-cost', '1', '--on-exceed', 'shout'], 'Allowed choices are fail, pause_for_approval, warn'],
  [['budget', 'get', 'team', 'x'], 'Allowed choices are run, batch, tenant'],
  [['budget', 'top-up', 'batch', 'x', '0'], 'Not a number above 0'],
  [['costs', '--group-by', 'colour'], 'Not one of tenant, agent, model, day'],
])('%j is a mistake that is explained', async (args, says) => {
  const { code, stderr } = await millrace(args, { env: settings('unused') });
  expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
});
