import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { compaction } from '../src/shared/contract/agent/agent.ts';
import { systemClock } from '../src/shared/base/clock.ts';
import { parseConfig } from '../src/shared/contract/config.ts';
import { silentLog } from '../src/shared/base/log.ts';
import { Redactor } from '../src/shared/base/redact.ts';
import { loadAgents } from '../src/worker/agents/load-folder.ts';
import { createToolSecrets } from '../src/worker/agents/tool-secrets.ts';
import { createToolkit } from '../src/worker/agents/toolkit.ts';
import { codeBlocks, firstCells } from './support/markdown.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/context.md'), 'utf8');

test('every file on the page about long conversations is one that a worker reads', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const code of ['ts', 'yaml'].flatMap((language) => codeBlocks(page, language))) {
    const [, name = 'nameless'] = /^(?:#|\/\/) ([\w/-]+\.(?:yaml|ts))\n/.exec(code) ?? [];
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), code);
  }
  const config = parseConfig({});
  const secrets = createToolSecrets({ env: {} });
  await using toolkit = createToolkit({
    config,
    secrets,
    redactor: new Redactor(),
    log: silentLog,
    clock: systemClock,
  });
  const { agents, problems, warnings } = await loadAgents(join(folder, 'agents'), toolkit.offer);
  expect([problems, warnings]).toEqual([[], []]);
  expect([...agents.keys()].sort()).toEqual(['clerk', 'researcher']);
  expect(agents.get('clerk')?.postCompactionHooks).toHaveLength(2);
});

test('the page lists exactly the fields of compaction', () => {
  expect(firstCells(page)).toEqual(Object.keys(compaction.shape));
});
