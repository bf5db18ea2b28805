import { docsPage, pageFiles } from './support/docs-page.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { configSchema } from '../src/shared/contract/config.ts';
import { loadModelScript } from '../src/worker/llm/backends/script-file.ts';
import { loadAgents } from '../src/worker/agents/load-agents.ts';
import { findTools } from '../src/worker/tools/code-mode/tools.ts';
import { defaultLimits, scriptGraceMs, maxJsonLevels } from '../src/worker/tools/code-mode/protocol.ts';
import { codeBlocks } from './support/markdown.ts';
import { scriptWorld } from './worker/tools/code-mode/script-world.ts';

const page = docsPage('code-mode.md');
const world = scriptWorld();

async function pageTool() {
  const { folder } = pageFiles(page);
  const { agents, problems } = await loadAgents(join(folder, 'agents'));
  expect(problems).toEqual([]);
  const agent = agents.get('analyst');
  expect(agent?.definition.toolInvocation).toBe('code-mode');
  const [tool] = agent?.tools ?? [];
  if (!tool) throw new Error('the page has no tool');
  return tool;
}

async function run(source: string) {
  const tool = await pageTool();
  return await world.run(source, {
    tools: [tool.name],
    async call(_name, args) {
      const checked = await tool.check(args);
      if (!checked.ok) return { ok: false, kind: 'invalid_input', message: checked.problems.join() };
      return { ok: true, value: await tool.execute(checked.value, {} as never) };
    },
  });
}

test('every file on the page about code mode is one that a worker reads', async () => {
  const { folder, names } = pageFiles(page);
  expect(names).toEqual(['agents/tools/sales.ts', 'agents/analyst.yaml', 'answers.yaml']);
  await pageTool();
  loadModelScript(join(folder, 'answers.yaml'));
});

test('the script of the scripted model answers the number that it is there for', async () => {
  const { folder } = pageFiles(page);
  const { rules } = parse(readFileSync(join(folder, 'answers.yaml'), 'utf8')) as {
    rules: { answer: { toolCalls: { args: { source: string } }[] } }[];
  };
  const source = rules[0]?.answer.toolCalls[0]?.args.source ?? '';
  expect(await run(source)).toMatchObject({ ok: true, value: 109_945_000, calls: 10 });
});

test('every script on the page runs', async () => {
  const outcomes = await Promise.all(codeBlocks(page, 'js').map(run));
  expect(outcomes).toMatchObject([
    { ok: true, value: { january: 667, june: 667 } },
    { ok: true, value: 'sales: invalid_input' },
  ]);
});

test('what the search answers is what the page says', async () => {
  const { name, description, parameters } = await pageTool();
  const found = findTools(
    [{ name, description, parameters, deferred: false, trust: 'built-in', gated: false }],
    'sales',
    8,
  ).text;
  expect(codeBlocks(page, 'text')).toEqual([`${found}\n`]);
});

test('the page names the limits that hold', () => {
  const { maxSourceChars, timeoutMs, maxCalls, maxArgsChars, maxResultBytes } = defaultLimits;
  const limits = page.slice(page.indexOf('## Limits'), page.indexOf('## Processes'));
  for (const said of [maxSourceChars, maxArgsChars, maxResultBytes])
    expect(limits).toContain(said.toLocaleString('en'));
  for (const said of [`${timeoutMs / 1_000} s`, ` ${maxCalls} `, `${scriptGraceMs} ms`, `${maxJsonLevels} levels`])
    expect(limits).toContain(said);
  expect(page).toContain(`(default ${configSchema.shape.CODE_MODE_PROCESSES.parse(undefined)})`);
});
