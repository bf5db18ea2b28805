import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadAgents } from '../../../src/worker/run/load-agents.ts';

function folder(files: Record<string, string>): string {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  for (const [file, text] of Object.entries(files)) {
    if (file.includes('/')) mkdirSync(join(dir, file, '..'), { recursive: true });
    writeFileSync(join(dir, file), text);
  }
  return dir;
}

const tool = `import { defineTool } from 'millrace/worker';
import { z } from 'zod';
export const lookup = defineTool({ name: 'lookup', description: 'Looks up.', inputSchema: z.object({}), effect: 'read', execute: () => 1 });
`;

test('agents come from YAML and modules, with tools from the folder, without any node_modules there', async () => {
  const dir = folder({
    'support.yaml': 'model: m\ntools: [lookup]\n',
    'writer.mjs':
      "import { defineAgent } from 'millrace/worker';\nexport default defineAgent({ id: 'w', model: 'm' });\n",
    'tools/lookup.mjs': tool,
  });
  const { agents, problems } = await loadAgents(dir);
  expect(problems).toEqual([]);
  expect([...agents.keys()].sort()).toEqual(['support', 'w']);
  expect(agents.get('support')?.tools.map((t) => t.name)).toEqual(['lookup']);
});

test('every problem of every file is reported at once', async () => {
  const dir = folder({
    'a.yaml': 'modle: x\n',
    'b.yaml': 'model: [\n',
    'c.mjs': 'export const nothing = 1;\n',
    'd.mjs': 'this is not a module',
    'e.yaml': 'model: m\ntools: [nope]\n',
    'f.yaml': '- a list\n',
    'g.yaml': 'id: same\nmodel: m\n',
    'h.yaml': 'id: same\nmodel: m\n',
    'tools/empty.mjs': 'export const x = 1;\n',
  });
  const { problems } = await loadAgents(dir);
  for (const file of ['a.yaml', 'b.yaml', 'c.mjs', 'd.mjs', 'e.yaml', 'f.yaml', 'h.yaml', 'tools/empty.mjs']) {
    expect(
      problems.filter((p) => p.startsWith(file)),
      file,
    ).toHaveLength(1);
  }
  expect(problems.find((p) => p.startsWith('a.yaml'))).toMatch(/model[\s\S]*modle/);
});

test('a missing folder is a problem with its name', async () => {
  expect((await loadAgents('/nowhere/agents')).problems[0]).toContain('/nowhere/agents');
});

test('options for tools are checked where all tools are known', async () => {
  const options = 'model: m\ntoolOptions: { notify_user: { needsApproval: true } }\n';
  const dir = folder({
    'closed.yaml': options,
    'open.yaml': `${options}capabilities: [notify]\n`,
  });
  expect((await loadAgents(dir)).problems).toEqual([
    'closed.yaml: toolOptions.notify_user: the agent has no tool of this name',
  ]);
});
