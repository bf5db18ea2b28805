import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../src/shared/base/clock.ts';
import { parseConfig } from '../src/shared/contract/config.ts';
import { silentLog } from '../src/shared/base/log.ts';
import { Redactor } from '../src/shared/base/redact.ts';
import { loadAgents } from '../src/worker/agents/load-folder.ts';
import { createToolSecrets } from '../src/worker/agents/tool-secrets.ts';
import { createToolkit } from '../src/worker/agents/toolkit.ts';
import { codeBlocks } from './support/markdown.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/tools.md'), 'utf8');

test('every file on the page about tools is one that a worker reads', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const names = ['ts', 'yaml'].flatMap((language) =>
    codeBlocks(page, language).map((code) => {
      const [, name = 'nameless'] = /^(?:#|\/\/) ([\w/-]+\.(?:yaml|ts))\n/.exec(code) ?? [];
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), code);
      return name;
    }),
  );
  expect(names).toEqual([
    'agents/tools/orders.ts',
    'agents/support.yaml',
    'agents/careful.yaml',
    'agents/librarian.yaml',
    'policies.yaml',
  ]);
  const config = parseConfig({ MILLRACE_POLICIES: join(folder, 'policies.yaml') });
  const secrets = createToolSecrets({ env: {} });
  const redactor = new Redactor();
  await using toolkit = createToolkit({ config, secrets, redactor, log: silentLog, clock: systemClock });
  const { agents, problems, warnings } = await loadAgents(join(folder, 'agents'), toolkit.offer);
  expect([problems, warnings]).toEqual([[], []]);
  expect([...agents.keys()].sort()).toEqual(['careful', 'librarian', 'support']);
});
