import { expect, test } from 'vitest';
import { countLifecycle } from '../../../src/shared/state/series/count-lifecycle.ts';
import { clientWorld, request } from './options/client.ts';
import { millrace, settings } from './support/cli-process.ts';
import { FakeTerminal } from './support/fake-terminal.ts';

async function twoRuns() {
  const world = await clientWorld();
  await world.mill.enqueue(request);
  await world.mill.enqueue(request);
  await countLifecycle({ ...world, cluster: false }, Date.now());
  return world;
}

test('top shows what runs do, and ends where the output is no terminal', async () => {
  const { prefix } = await twoRuns();
  const { code, stdout } = await millrace(['top'], { env: settings(prefix) });
  expect(code).toBe(0);
  const lines = stdout.split('\n').map((line) => line.trim().split(/ {2,}/));
  expect(lines).toContainEqual(['10 s', '1 min', '10 min', 'all']);
  expect(lines.find(([name]) => name === 'accepted')?.at(-1)).toBe('2');
  expect(stdout).toContain('runs: 2 waiting, 0 active, 0 delayed, 0 workers');
  const { stdout: json } = await millrace(['top', '--json', '--since', '2d'], { env: settings(prefix) });
  expect(JSON.parse(json)).toMatchObject({ stepS: 600, agents: [] });
});

test('on a terminal top goes on, and shows what comes', async () => {
  const { mill, prefix, ...world } = await twoRuns();
  const top = new FakeTerminal(['top'], prefix);
  await top.shows(/accepted .*2\n/);
  await mill.enqueue(request);
  await countLifecycle({ ...world, cluster: false }, Date.now());
  expect(await top.shows(/accepted .*3\n/)).toBeUndefined();
});
