import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { CliProcess, millrace, root } from './support/cli-process.ts';
import { freePort } from '../../support/scratch-redis.ts';
import { until } from '../../support/redis.ts';

function project(): string {
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-samples-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true, maxRetries: 5 }));
  cpSync(join(root, 'agents'), join(cwd, 'agents'), { recursive: true });
  return cwd;
}

const devIn = async (cwd: string) =>
  new CliProcess(['dev'], { cwd, ownGroup: true, env: { PORT: String(await freePort()), WORKER_PORT: '0' } });

interface Sample {
  readonly agent: string;
  readonly status: string;
}

test('a first start leaves runs to look at: answered, failed, and one that waits; a second start adds none', async () => {
  const cwd = project();
  const dev = await devIn(cwd);
  await dev.says('4 samples to look at', 60_000);
  const runs = async () => JSON.parse((await millrace(['runs', '--json'], { cwd })).stdout) as readonly Sample[];
  const states = async () => (await runs()).map(({ agent, status }) => `${agent} ${status}`).toSorted();
  const all = ['refunds suspended', 'summarise completed', 'support completed', 'support failed'];
  await until('the samples to be there', async () => (await states()).join() === all.join());
  expect((await millrace(['approvals'], { cwd })).stdout).toContain('refund_order');
  dev.signal('SIGINT');
  expect(await dev.exited).toBe(0);

  const again = await devIn(cwd);
  await again.says('"msg":"worker is ready"', 60_000);
  expect(again.stdout).not.toContain('samples');
  expect(await runs()).toHaveLength(4);
}, 120_000);

test('a file of that name in the working directory holds no samples: only one beside the script of a project does', async () => {
  const cwd = project();
  rmSync(join(cwd, 'agents/scripts'), { recursive: true });
  writeFileSync(join(cwd, 'samples.jsonl'), '{"agent":"support","input":"one of 50,000 tasks"}\n');
  const dev = await devIn(cwd);
  await dev.says('"msg":"worker is ready"', 60_000);
  expect(dev.stdout).not.toContain('samples');
  expect(JSON.parse((await millrace(['runs', '--json'], { cwd })).stdout)).toEqual([]);
}, 120_000);
