import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { devState } from '../../../src/producer/client/dev-state.ts';
import { freePort } from '../../support/scratch-redis.ts';
import { until } from '../../support/redis.ts';
import { CliProcess, millrace, root } from './support/cli-process.ts';

/** A running stack in a folder of its own, with the sample agents and `more`. */
async function runningDev(more: Readonly<Record<string, string>> = {}) {
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-reload-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true, maxRetries: 5 }));
  cpSync(join(root, 'agents'), join(cwd, 'agents'), { recursive: true });
  const write = (path: string, text: string) => {
    mkdirSync(join(cwd, path, '..'), { recursive: true });
    writeFileSync(join(cwd, path), text);
  };
  for (const [path, text] of Object.entries(more)) write(path, text);
  const dev = new CliProcess(['dev'], { cwd, env: { PORT: String(await freePort()), WORKER_PORT: '0' } });
  await dev.says('Ctrl-C stops everything', 60_000);
  const says = (text: string | RegExp) => dev.says(text, 60_000);
  const { url } = devState.parse(JSON.parse(readFileSync(join(cwd, '.millrace/dev.json'), 'utf8')));
  const agents = async () => {
    const answer = await fetch(`${url}/v1/agents`);
    return ((await answer.json()) as { agents: { id: string }[] }).agents.map(({ id }) => id);
  };
  return { dev, cwd, says, write, agents };
}

const state = (text: string) => `
import { defineTool } from 'millrace/worker';
import { z } from 'zod';
export const lookupOrder = defineTool({
  name: 'lookup_order',
  description: 'Finds an order.',
  inputSchema: z.object({ order: z.string() }),
  effect: 'read',
  execute: () => ${text},
});
`;

test('an agent that is new, changed or removed is so for the next run, without a restart', async () => {
  const { cwd, says, write, agents } = await runningDev();
  expect(await agents()).toEqual(['refunds', 'summarise', 'support']);

  write('agents/orders.yaml', 'model: gpt-5.2-mini\ntools: [lookup_order]\n');
  await says('agents/orders.yaml changed: loading the agents again');
  await says('new: orders');
  const run = await millrace(['run', 'orders', 'Where is order 7?'], { cwd });
  expect(run.stdout).toContain('Order 7 waits for a part');
  expect(run.code).toBe(0);

  rmSync(join(cwd, 'agents/summarise.ts'));
  await says('gone: summarise');
  await until('the removed agent to be gone', async () => !(await agents()).includes('summarise'));
  expect(await agents()).toEqual(['orders', 'refunds', 'support']);
}, 240_000);

test('a tool, and a module outside of the folder that it imports, are loaded again', async () => {
  const { cwd, says, write } = await runningDev({
    'lib/state.ts': `export const said = 'Order 7 is in the first place.';\n`,
    'agents/tools/lookup_order.ts': `import { said } from '../../lib/state.ts';\n${state('said')}`,
  });
  const answer = async () => (await millrace(['run', 'support', 'Where is order 7?'], { cwd })).stdout;
  expect(await answer()).toContain('in the first place');
  write('lib/state.ts', `export const said = 'Order 7 is in the second place.';\n`);
  await says('lib/state.ts changed: loading the agents again');
  await says(/\nagents {2}refunds, summarise, support/);
  expect(await answer()).toContain('in the second place');
  write('agents/tools/lookup_order.ts', state(`'Order 7 is in the third place.'`));
  await says('agents/tools/lookup_order.ts changed');
  await until('the third answer', async () => (await answer()).includes('in the third place'));
}, 240_000);

test('a broken file keeps what was loaded before, and the problem is shown with its file and line', async () => {
  const { cwd, says, write } = await runningDev();
  write('agents/support.yaml', 'model: gpt-5.2-mini\ninstructions: Be brief.\ntools: [lookup_ordr]\n');
  await says('agents/support.yaml:3: ');
  await says('there is no tool lookup_ordr');
  await says('The agents stay as they were until this is repaired.');
  const still = await millrace(['run', 'support', 'Where is order 7?'], { cwd });
  expect(still.stdout).toContain('Order 7 waits for a part');

  write('agents/support.yaml', 'model: gpt-5.2-mini\ninstructions: Be brief.\ntools: [lookup_order]\n');
  await says(/\nagents {2}refunds, summarise, support/);
  write('agents/tools/lookup_order.ts', 'export const a = 1;\nexport const b = ;\n');
  await says('agents/tools/lookup_order.ts:2: ');
}, 240_000);

test('a run that is in flight continues on the next worker, with its call made again as its effect allows', async () => {
  const { cwd, says, write } = await runningDev({
    'agents/tools/lookup_order.ts': `import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
const said = async () => {
  appendFileSync('calls', \`\${process.pid}\\n\`);
  while (!existsSync('go')) await setTimeout(20);
  return 'Order 7 is late.';
};
${state('said()')}`,
  });
  const run = await millrace(['run', 'support', 'Where is order 7?', '--detach'], { cwd });
  const runId = run.stdout.trim();
  const callers = () =>
    existsSync(join(cwd, 'calls')) ? readFileSync(join(cwd, 'calls'), 'utf8').trim().split('\n') : [];
  await until('the tool to be called', () => callers().length === 1);
  write('agents/orders.yaml', 'model: gpt-5.2-mini\n');
  await says('new: orders');
  await until('the tool to be called again', () => callers().length === 2);
  write('go', '');
  const shown = async () => (await millrace(['get', runId], { cwd })).stdout;
  await until('the run to end', async () => /completed|failed/.test(await shown()));
  expect(await shown()).toContain('completed');
  expect(new Set(callers()).size).toBe(2);
}, 240_000);

const endless = `
import { renameSync, writeFileSync } from 'node:fs';
writeFileSync('endless.new', String(process.pid));
renameSync('endless.new', 'endless.pid');
for (;;);
`;

async function pidOfEndless(cwd: string): Promise<number> {
  const path = join(cwd, 'endless.pid');
  await until('the files to load', () => existsSync(path), 60_000);
  return Number(readFileSync(path, 'utf8'));
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('Ctrl-C while a worker loads files that never end leaves no process behind', async () => {
  const { dev, cwd, write } = await runningDev();
  write('agents/tools/endless.ts', endless);
  const pid = await pidOfEndless(cwd);
  dev.signal('SIGINT');
  await until('the worker to end', () => !isAlive(pid));
  expect(await dev.exited).toBe(0);
}, 120_000);

test('one Ctrl-C while the first worker loads files that never end ends everything', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-reload-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true, maxRetries: 5 }));
  cpSync(join(root, 'agents'), join(cwd, 'agents'), { recursive: true });
  writeFileSync(join(cwd, 'agents/tools/endless.ts'), endless);
  const dev = new CliProcess(['dev'], { cwd, env: { PORT: String(await freePort()), WORKER_PORT: '0' } });
  const pid = await pidOfEndless(cwd);
  dev.signal('SIGINT');
  await until('the worker to end', () => !isAlive(pid));
  expect(await dev.exited).toBe(130);
}, 120_000);
