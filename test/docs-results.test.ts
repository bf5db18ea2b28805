import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { systemClock } from '../src/shared/base/clock.ts';
import { configSchema, parseConfig } from '../src/shared/contract/config.ts';
import { silentLog } from '../src/shared/base/log.ts';
import { Redactor } from '../src/shared/base/redact.ts';
import { loadAgents } from '../src/worker/agents/load-folder.ts';
import { createToolSecrets } from '../src/worker/agents/tool-secrets.ts';
import { createToolkit } from '../src/worker/agents/toolkit.ts';
import { createReadResultTool } from '../src/worker/tools/builtin/read-result.ts';
import { fitResult } from '../src/worker/tools/execute/fit.ts';
import { callTool, valueOf } from './worker/tools/execute/context.ts';
import { millrace, settings } from './producer/cli/support/cli-process.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { codeBlocks } from './support/markdown.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/results-and-artifacts.md'), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'millrace-page-'));
afterAll(() => rmSync(folder, { recursive: true }));
const names = ['ts', 'yaml'].flatMap((language) =>
  codeBlocks(page, language).map((code) => {
    const [, name = 'nameless'] = /^(?:#|\/\/) ([\w/-]+\.(?:yaml|ts))\n/.exec(code) ?? [];
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), code);
    return name;
  }),
);

async function pageAgents() {
  const secrets = createToolSecrets({ env: {} });
  const options = { config: parseConfig({}), secrets, redactor: new Redactor(), log: silentLog, clock: systemClock };
  await using toolkit = createToolkit(options);
  return await loadAgents(join(folder, 'agents'), toolkit.offer);
}

test('every file on the page about results is one that a worker reads', async () => {
  expect(names).toEqual(['agents/tools/orders.ts', 'agents/librarian.ts', 'agents/analyst.yaml']);
  const { agents, problems, warnings } = await pageAgents();
  expect([problems, warnings]).toEqual([[], []]);
  expect([...agents.keys()].toSorted()).toEqual(['analyst', 'librarian']);
});

test('the tools of the page do what the page says', async () => {
  const { agents } = await pageAgents();
  const tools = new Map(agents.get('analyst')?.tools.map((tool) => [tool.name, tool]));
  const signal = new AbortController().signal;
  const [large, log] = [tools.get('export_orders'), tools.get('build_log')];
  if (!large || !log) throw new Error('the page has lost a tool');
  const text = JSON.stringify((await callTool(large, { year: 2026 })).output);
  const spilled = await fitResult(text, large, { put: async () => 'spill:x' }, signal);
  expect(spilled.handle).toBe('spill:x');
  expect(Buffer.byteLength(spilled.content)).toBeLessThanOrEqual(4_000);
  const said = String((await callTool(log, {})).output);
  expect(await fitResult(said, log, undefined, signal)).toEqual({ content: 'no errors' });
});

test('the reader of the page reads the handle that its tool returns', async () => {
  const librarian = (await pageAgents()).agents.get('librarian');
  const [findBook] = librarian?.tools ?? [];
  if (!findBook) throw new Error('the page has lost a tool');
  const { handle } = (await callTool(findBook, { title: 'moby' })).output as { readonly handle: string };
  const reading = createReadResultTool(librarian?.resultReaders ?? []);
  const found = valueOf(await callTool(reading, { handle, offset: 8, length: 7 }));
  expect(found).toEqual({ content: 'Ishmael', offset: 8, bytes: 7, totalBytes: 63, eof: false });
});

test('every store on the page is one that is understood, and the defaults are those of the settings', () => {
  const stores = codeBlocks(page, 'sh').flatMap((code) =>
    [...code.matchAll(/^ARTIFACT_STORE='?([^'\n]+)'?$/gm)].map(([, text = '']) => text),
  );
  expect(stores.map((text) => parseConfig({ ARTIFACT_STORE: text }).ARTIFACT_STORE.kind)).toEqual([
    'redis',
    'folder',
    's3',
  ]);
  const { ARTIFACT_MAX_BYTES, ARTIFACT_RUN_MAX_BYTES, PROGRESS_RETENTION_DAYS } = configSchema.parse({});
  const shown = [
    `${ARTIFACT_MAX_BYTES / 2 ** 20} MiB`,
    `${ARTIFACT_RUN_MAX_BYTES / 2 ** 20} MiB`,
    `${PROGRESS_RETENTION_DAYS}`,
  ];
  const rows = [...page.matchAll(/^\| `(?:ARTIFACT\w*BYTES|PROGRESS_RETENTION_DAYS)` +\| ([^|]*?) +\|/gm)];
  expect(rows.map(([, value]) => value)).toEqual(shown);
});

test('every command and request on the page is understood', async () => {
  const world = await serverWorld();
  const [block = ''] = codeBlocks(page, 'sh').filter((code) => code.includes('millrace progress'));
  const [, run = ''] = /^RUN=(\S+)$/m.exec(block) ?? [];
  const lines = block.replaceAll('$RUN', run).split('\n');
  for (const line of lines.filter((text) => text.startsWith('millrace '))) {
    const { stderr } = await millrace(line.split(' ').slice(1), { env: settings(world.prefix) });
    expect(stderr).toMatch(/^run_not_found: /);
  }
  const [, path = ''] = /:8080(\S+)"/.exec(lines.find((text) => text.startsWith('curl ')) ?? '') ?? [];
  expect((await world.send('GET', path)).body.error.code).toBe('run_not_found');
});
