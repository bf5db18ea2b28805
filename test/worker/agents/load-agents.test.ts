import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { loadedFrom } from '../../../src/worker/agents/loaded-agent.ts';
import { loadAgents } from '../../../src/worker/agents/load-agents.ts';
import { createToolSecrets } from '../../../src/worker/agents/tool-secrets.ts';
import { createToolkit } from '../../../src/worker/agents/toolkit.ts';

function folder(files: Record<string, string | Buffer>): string {
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
    ).toHaveLength(file === 'a.yaml' ? 2 : 1);
  }
  expect(problems).toContain('a.yaml: model: is missing');
  expect(problems.some((p) => p.startsWith('a.yaml:1: modle: is not a known field'))).toBe(true);
});

function adapter(id: string, more = ''): string {
  return `import { defineTaskAdapter } from 'millrace/worker';
const answer = () => ({});
export default defineTaskAdapter({ id: '${id}', observe: answer, validate: answer, decide: answer, act: answer, ${more} });
`;
}

const judge = (made: string) =>
  `import { defineJudge, defineMerge } from 'millrace/worker';\nexport default ${made};\n`;

test('judges and merge functions come from the folder judges, under their ids, with every problem at once', async () => {
  const dir = folder({
    'poet.yaml': 'model: m\n',
    'judges/chair.mjs': judge("defineJudge({ id: 'chair', judge: () => '' })"),
    'judges/sum.mjs': judge("defineMerge({ id: 'sum', merge: () => 1 })"),
    'judges/twice.mjs': judge("defineMerge({ id: 'chair', merge: () => 1 })"),
    'judges/poet.mjs': judge("defineJudge({ id: 'poet', judge: () => '' })"),
    'judges/plain.mjs': 'export default { id: "plain" };\n',
    'judges/wrong.mjs': judge("defineJudge({ id: 'a b', judge: 1, colour: 2 })"),
  });
  const { judges, merges, problems } = await loadAgents(dir);
  expect([...judges.keys(), ...merges.keys()]).toEqual(['chair', 'poet', 'sum']);
  expect(problems).toEqual([
    'judges/plain.mjs: does not default-export defineJudge(…) or defineMerge(…)',
    'judges/twice.mjs: chair is defined twice',
    expect.stringMatching(/^judges\/wrong\.mjs:\d: id: /),
    expect.stringMatching(/^judges\/wrong\.mjs:\d: judge: must be a function$/),
    expect.stringMatching(/^judges\/wrong\.mjs:\d: colour: is not a known field$/),
    'judges: judge poet has the name of an agent',
  ]);
});

test('adapters of tasks come from the folder adapters, under their ids, with every problem at once', async () => {
  const dir = folder({
    'adapters/inbox.mjs': adapter('inbox'),
    'adapters/other.mjs': adapter('inbox'),
    'adapters/plain.mjs': 'export default { id: "plain" };\n',
    'adapters/wrong.mjs': adapter('a b', 'shouldStop: 1, colour: 2'),
    'adapters/broken.mjs': 'this is not a module',
    'adapters/notes.md': 'no module',
  });
  const { adapters, problems } = await loadAgents(dir);
  expect([...adapters.keys()]).toEqual(['inbox']);
  expect(Object.isFrozen(adapters.get('inbox'))).toBe(true);
  expect(problems).toEqual([
    expect.stringMatching(/^adapters\/broken\.mjs:1: /),
    'adapters/other.mjs: task adapter inbox is defined twice',
    'adapters/plain.mjs: does not default-export defineTaskAdapter(…)',
    expect.stringMatching(/^adapters\/wrong\.mjs:\d: id: /),
    expect.stringMatching(/^adapters\/wrong\.mjs:\d: shouldStop: must be a function$/),
    expect.stringMatching(/^adapters\/wrong\.mjs:\d: colour: is not a known field$/),
  ]);
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
    'closed.yaml:2: toolOptions.notify_user: the agent has no tool of this name',
  ]);
});

test('options name a tool and its source, and neither an agent nor its author takes a reserved name', async () => {
  const server = 'mcpServers: { files: { command: x } }\ntools: ["mcp:files"]\n';
  const options = (...keys: string[]) =>
    `model: m\ntoolOptions: { ${keys.map((key) => `"${key}": { timeoutMs: 5 }`).join(', ')} }\n`;
  const dir = folder({
    'fine.yaml': `${options('mcp:files/read', 'tool_search', 'transfer_to_fine')}${server}handoffs: [fine]\n`,
    'plain.yaml': options('read') + server,
    'other.yaml': options('mcp:docs/read', 'mcp:files', 'mcp:files/read'),
    'proto.yaml': options('constructor', 'toString'),
    'taken.yaml': 'model: m\ntools: [read_result]\nagentTools: { code_execute: { agent: fine } }\n',
    'tools/read.mjs': tool.replaceAll('lookup', 'read_result'),
  });
  expect((await loadAgents(dir)).problems).toEqual([
    'other.yaml:2: toolOptions.mcp:docs/read: the agent is granted no MCP server docs',
    'other.yaml:2: toolOptions.mcp:files: must be mcp:<server>/<tool>',
    'other.yaml:2: toolOptions.mcp:files/read: the agent is granted no MCP server files',
    'plain.yaml:2: toolOptions.read: the agent has no tool of this name; a tool of a server is mcp:<server>/<tool>',
    'proto.yaml:2: toolOptions.constructor: the agent has no tool of this name',
    'proto.yaml:2: toolOptions.toString: the agent has no tool of this name',
    'taken.yaml:2: tool read_result: this name is reserved for a tool of this package; give it another one',
    'taken.yaml:3: tool code_execute: this name is reserved for a tool of this package; give it another one',
  ]);
});

const skill = (head: string) => `---\n${head}\n---\n\n# How to\n\nDo it.\n`;

test('agents get the skills that they name, and tasks are found by the names of their files', async () => {
  const dir = folder({
    'clerk.yaml': 'model: m\ntools: [lookup]\nskills: [refunds, scraped]\n',
    'tools/lookup.mjs': tool,
    'other.yaml': 'model: m\n',
    'skills/README.md': 'Not a skill.',
    'skills/refunds/SKILL.md': skill(
      'name: refunds\ndescription: >\n  When money\n  goes back.\nlicense: MIT\nallowed-tools: lookup Bash(git add:*)\nversion: 1',
    ),
    'skills/scraped/SKILL.md': skill('name: scraped\r\ndescription: Found it.\r\ntrust: untrusted'),
    'tasks/audit.yaml': 'title: Audit\ndata: { week: [7, null] }\n',
  });
  const { agents, tasks, problems, warnings } = await loadAgents(dir);
  expect(problems).toEqual([]);
  expect(warnings).toEqual([
    'clerk.yaml: skill refunds is written for tools that the agent does not have: Bash(git add:*)',
  ]);
  expect(agents.get('clerk')?.skills).toEqual([
    {
      name: 'refunds',
      description: 'When money goes back.',
      trust: 'trusted',
      allowedTools: ['lookup', 'Bash(git add:*)'],
      folder: join(dir, 'skills/refunds'),
    },
    {
      name: 'scraped',
      description: 'Found it.',
      trust: 'untrusted',
      allowedTools: [],
      folder: join(dir, 'skills/scraped'),
    },
  ]);
  expect(agents.get('other')?.skills).toEqual([]);
  const audit = { id: 'audit', title: 'Audit', description: '', data: { week: [7, null] } };
  expect([...tasks]).toEqual([['audit', audit]]);
  expect(Object.isFrozen(Object.values(tasks.get('audit')?.data ?? {})[0])).toBe(true);
});

test.each([
  ['no-head', 'Just do it.', 'does not begin with its fields'],
  ['open-head', '---\nname: open-head\n', 'does not begin with its fields'],
  ['no-body', '---\nname: no-body\ndescription: d\n---\n', 'says nothing below its fields'],
  ['other-name', skill('name: another\ndescription: d'), 'name: is another'],
  ['no-words', skill('name: no-words'), 'description: '],
  ['odd-trust', skill('name: odd-trust\ndescription: d\ntrust: yes'), 'trust: '],
  ['bad-yaml', skill('name: [\ndescription: d'), ''],
  ['too-large', skill(`name: too-large\ndescription: d\n---\n${'x'.repeat(65_536)}`), '65536 can be read'],
  ['not-text', Buffer.from([0x2d, 0x2d, 0x2d, 0x0a, 0xff, 0xfe]), 'is not UTF-8'],
  ['Shouting', skill('name: Shouting\ndescription: d'), 'name: must be'],
])('a skill with a problem is a problem of its folder: %s', async (name, text, problem) => {
  const dir = folder({ [`skills/${name}/SKILL.md`]: text });
  const { problems } = await loadAgents(dir);
  expect(problems.length).toBeGreaterThan(0);
  for (const one of problems) expect(one).toContain(`skills/${name}/SKILL.md: `);
  expect(problems.join('\n')).toContain(problem);
});

test('every problem of tasks and skills is reported with those of agents', async () => {
  const dir = folder({
    'clerk.yaml': 'model: m\nskills: [nope]\n',
    'tasks/a.yaml': 'titel: Audit\n',
    'tasks/b.yaml': 'title: Audit\n',
    'tasks/b.yml': 'title: Again\n',
    'tasks/c.yaml': 'title: Use {{ secrets.key }}\n',
    'tasks/d e.yaml': 'title: Audit\n',
    'tasks/f.yaml': 'title: [\n',
    'tasks/g.yaml': `title: Audit\ndata: ${'x'.repeat(65_536)}\n`,
    'skills/empty/notes.md': 'Nothing here.',
  });
  const { problems } = await loadAgents(dir);
  expect(problems.map((problem) => problem.split(':')[0])).toEqual([
    'skills/empty/SKILL.md',
    'tasks/a.yaml',
    'tasks/a.yaml',
    'tasks/b.yml',
    'tasks/c.yaml',
    'tasks/d e.yaml',
    'tasks/f.yaml',
    'tasks/g.yaml',
    'clerk.yaml',
  ]);
  expect(problems.at(-1)).toContain('there is no skill nope; known are none');
});

test('an agent given as an object has no folder with skills', () => {
  const agent = defineAgent({ id: 'a', model: 'm', skills: ['refunds'] });
  expect(() => loadedFrom(agent)).toThrow('there is no skill refunds');
});

test('directories have to be folders below MILLRACE_FILES', async () => {
  const dir = folder({
    'agents/a.yaml': 'model: m\ndirectories: [here, gone, out]\n',
    'agents/b.yaml': 'model: m\ndirectories: [../up]\n',
    'files/here/x.txt': 'x',
    'elsewhere/y.txt': 'y',
  });
  symlinkSync(join(dir, 'elsewhere'), join(dir, 'files/out'));
  const problemsWith = async (env: Record<string, string>) => {
    const kit = { config: parseConfig(env), secrets: createToolSecrets({ env: {} }), redactor: new Redactor() };
    await using toolkit = createToolkit({ ...kit, log: silentLog, clock: systemClock });
    return (await loadAgents(join(dir, 'agents'), toolkit.offer)).problems;
  };
  const [gone, out, up] = await problemsWith({ MILLRACE_FILES: join(dir, 'files') });
  expect(gone).toBe('a.yaml:2: directories: there is no folder gone below MILLRACE_FILES');
  expect(out).toBe('a.yaml:2: directories: out leads out of MILLRACE_FILES');
  expect(up).toContain('directories.0: must be a relative path');
  expect((await problemsWith({}))[0]).toContain('MILLRACE_FILES is not set');
});
