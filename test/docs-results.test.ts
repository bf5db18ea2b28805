import { argumentsOf, docsPage, pageAgents, pageCommands, pageFiles, requestOf } from './support/docs-page.ts';
import { expect, test } from 'vitest';
import { configSchema, parseConfig } from '../src/shared/contract/config.ts';
import { createReadResultTool } from '../src/worker/tools/builtin/read-result.ts';
import { fitResult } from '../src/worker/tools/execute/fit.ts';
import { callTool, valueOf } from './worker/tools/execute/context.ts';
import { millrace, settings } from './producer/cli/support/cli-process.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { codeBlocks } from './support/markdown.ts';

const page = docsPage('results-and-artifacts.md');
test('every file on the page about results is one that a worker reads', async () => {
  const { folder, names } = pageFiles(page);
  expect(names).toEqual(['agents/tools/orders.ts', 'agents/librarian.ts', 'agents/analyst.yaml']);
  const { agents, problems, warnings } = await pageAgents(folder);
  expect([problems, warnings]).toEqual([[], []]);
  expect([...agents.keys()].toSorted()).toEqual(['analyst', 'librarian']);
});

test('the tools of the page do what the page says', async () => {
  const { agents } = await pageAgents(pageFiles(page).folder);
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
  const librarian = (await pageAgents(pageFiles(page).folder)).agents.get('librarian');
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
  const commands = pageCommands(page, 'millrace').filter((line) => line.startsWith('millrace progress'));
  expect(commands).not.toEqual([]);
  for (const command of commands) {
    const { stderr } = await millrace(argumentsOf(command), { env: settings(world.prefix) });
    expect(stderr).toMatch(/^run_not_found: /);
  }
  const [request = ''] = pageCommands(page, 'curl');
  expect((await world.send('GET', requestOf(request).path)).body.error.code).toBe('run_not_found');
});
