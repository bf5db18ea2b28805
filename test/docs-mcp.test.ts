import { docsPage, pageAgents, pageFiles } from './support/docs-page.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventBodies } from '../src/shared/contract/event.ts';
import * as limits from '../src/worker/tools/mcp/limits.ts';
import { namedIn } from '../src/worker/tools/mcp/result.ts';
import { codeBlocks } from './support/markdown.ts';

const page = docsPage('mcp.md');
const sample = readFileSync(join(import.meta.dirname, '../agents/capabilities/share-note.ts'), 'utf8');

test('every file on the page about MCP is one that a worker reads', async () => {
  const { folder, names } = pageFiles(page);
  const { agents, problems, warnings } = await pageAgents(folder);
  expect([problems, warnings]).toEqual([[], []]);
  const named = names.flatMap((name) => /\/([\w-]+)\.yaml$/.exec(name)?.[1] ?? []);
  expect(new Set(agents.keys())).toEqual(new Set(named));
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
