import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { scriptedModel } from '../../src/testing/index.ts';
import { defineAgent } from '../../src/worker/index.ts';
import { childEnv } from '../support/child-env.ts';
import { exportOf } from '../support/export-of.ts';

const entry = fileURLToPath(new URL('../../src/testing/main.ts', import.meta.url));

/** The process of `millrace replay`. */
async function replay(file: string, agent: string): Promise<{ code: unknown; stdout: string; stderr: string }> {
  return await new Promise((resolve) => {
    const args = [entry, 'replay', file, '--agent', agent];
    const child = execFile(process.execPath, args, { env: childEnv() }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

test.each([
  ['ends the process', 'process.exit(0);'],
  ['ends the process a moment later', 'setTimeout(() => process.exit(0), 5); await new Promise(() => {});'],
  ['waits for what never comes', 'await new Promise(() => {});'],
  ['throws where nothing catches it', "setTimeout(() => { throw new Error('late'); }); await new Promise(() => {});"],
])('a replay with a module that %s has no result, and says so', async (_, source) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-replay-'));
  const agent = defineAgent({ id: 'support', model: 'gpt-5.2-mini' });
  const file = join(folder, 'run.json');
  writeFileSync(
    file,
    JSON.stringify(await exportOf(agent, 'Where is order 7?', { provider: scriptedModel(['Here.']) })),
  );
  const agents = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
  writeFileSync(join(agents, 'support.ts'), source);
  const { code, stdout, stderr } = await replay(file, join(agents, 'support.ts'));
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain('the process ended before the replay had a result');
  expect(stderr).not.toContain('Warning');
});
