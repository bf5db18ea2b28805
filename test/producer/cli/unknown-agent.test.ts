import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { clientWorld } from './options/client.ts';
import { millrace, settings } from './support/cli-process.ts';

test('a run for an unknown agent is refused with the agents and files that there are, and the one that was meant', async () => {
  const { mill, prefix } = await clientWorld();
  const announced = ['summarise', 'support'].map((id) => ({ id, model: 'm', tools: [] }));
  await mill.registerAgents(announced);
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-unknown-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  const inFolder = () => millrace(['run', 'suport', 'Hello'], { cwd, env: settings(prefix) });

  const first = await inFolder();
  expect(first.stderr.split('\n')[0]).toBe(
    'validation: there is no agent suport; did you mean support?; known are summarise, support',
  );
  expect(first.stderr).not.toContain('Files in');
  expect(first.code).toBe(2);

  mkdirSync(join(cwd, 'agents/tools'), { recursive: true });
  for (const file of ['orders.yaml', 'support.yaml', 'notes.md', 'tools/x.ts'])
    writeFileSync(join(cwd, 'agents', file), '');
  expect((await inFolder()).stderr).toContain(
    'Files in agents: orders.yaml (no loaded agent has this name), support.yaml. `npx millrace agents check agents` reports their problems.',
  );
});
