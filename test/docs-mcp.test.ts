import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../src/shared/base/clock.ts';
import { parseConfig } from '../src/shared/contract/config.ts';
import { eventBodies } from '../src/shared/contract/event.ts';
import { silentLog } from '../src/shared/base/log.ts';
import { Redactor } from '../src/shared/base/redact.ts';
import { loadAgents } from '../src/worker/agents/load-folder.ts';
import { createToolSecrets } from '../src/worker/agents/tool-secrets.ts';
import { createToolkit } from '../src/worker/agents/toolkit.ts';
import * as limits from '../src/worker/tools/mcp/limits.ts';
import { namedIn } from '../src/worker/tools/mcp/result.ts';
import { codeBlocks } from './support/markdown.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/mcp.md'), 'utf8');
const sample = readFileSync(join(import.meta.dirname, '../agents/capabilities/share-note.ts'), 'utf8');

/** The files of the page, by the name in the first line of each block, written into a folder. */
function pageFolder(): { readonly folder: string; readonly files: ReadonlyMap<string, string> } {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const blocks = ['ts', 'yaml'].flatMap((language) => codeBlocks(page, language));
  const files = new Map(
    blocks.map((code) => [/^(?:#|\/\/) ([\w/-]+\.(?:yaml|ts))\n/.exec(code)?.[1] ?? 'nameless', code]),
  );
  for (const [name, code] of files) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), code);
  }
  return { folder, files };
}

test('every file on the page about MCP is one that a worker reads', async () => {
  const { folder, files } = pageFolder();
  const kit = {
    config: parseConfig({}),
    secrets: createToolSecrets({ env: {} }),
    redactor: new Redactor(),
    log: silentLog,
    clock: systemClock,
  };
  await using toolkit = createToolkit(kit);
  const { agents, problems, warnings } = await loadAgents(join(folder, 'agents'), toolkit.offer);
  expect([problems, warnings]).toEqual([[], []]);
  const named = [...files.keys()]
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => /\/([\w-]+)\.yaml$/.exec(name)?.[1]);
  expect(new Set(agents.keys())).toEqual(new Set(named));
  expect([...files.keys()]).not.toContain('nameless');
});

test('the capability on the page is the sample', () => {
  const withoutComments = (code: string) =>
    code
      .replaceAll(/^\/[/*].*\n/gm, '')
      .replaceAll(/import \{.*\} from 'millrace\/worker';\n/g, '')
      .trim();
  const onPage = codeBlocks(page, 'ts').find((code) => code.includes('share_note')) ?? '';
  expect(withoutComments(onPage)).toBe(withoutComments(sample));
});

test('the note of a resource on the page is one that is understood', () => {
  expect(namedIn(codeBlocks(page, 'text').flatMap((block) => block.split('\n')))).toEqual([
    { server: 'tickets', handle: 'ticket://4711' },
  ]);
});

test('the bounds on the page are those of the code', () => {
  const count = (value: number) => value.toLocaleString('en');
  for (const text of [
    `more than ${limits.maxMessageBytes / 1024 / 1024} MiB`,
    `deeper than ${limits.maxMessageDepth} levels`,
    `sends ${count(limits.maxUnaskedMessages)} messages that are no answers, or ${limits.maxWindowBytes / 1024 / 1024} MiB`,
    `more than ${limits.maxTools} tools`,
    `over ${limits.maxSchemaBytes / 1024} KiB, deeper than ${limits.maxSchemaDepth} levels`,
    `granted more than ${limits.maxEagerTools} tools`,
  ])
    expect(page).toContain(text);
});

test('the events of the page are those of the side channels', () => {
  const listed = new Set([...page.matchAll(/`(capability\.\w+)`/g)].map(([, type]) => type));
  expect(listed).toEqual(new Set(Object.keys(eventBodies).filter((type) => type.startsWith('capability.'))));
});
