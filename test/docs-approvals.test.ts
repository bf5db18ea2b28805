import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import type { Cli } from '../src/producer/cli/cli.ts';
import { runCli } from '../src/producer/cli/program.ts';
import { Millrace } from '../src/producer/client/millrace.ts';
import { systemClock } from '../src/shared/base/clock.ts';
import { parseConfig } from '../src/shared/contract/config.ts';
import { startScratchRedis } from '../src/shared/base/dev-redis.ts';
import { silentLog } from '../src/shared/base/log.ts';
import { keysFor } from '../src/shared/state/keys.ts';
import { Redactor } from '../src/shared/base/redact.ts';
import { createToolSecrets } from '../src/worker/agents/tool-secrets.ts';
import { createToolkit } from '../src/worker/agents/toolkit.ts';
import { defineAgent, defineTool, type Agent, type RunState } from '../src/worker/index.ts';
import { loadAgents } from '../src/worker/agents/load-folder.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { suspendedRun } from './producer/support/suspended.ts';
import { codeBlocks } from './support/markdown.ts';
import { testPrefix, testRedis } from './support/redis.ts';

const root = join(import.meta.dirname, '..');
const page = readFileSync(join(root, 'docs/approvals.md'), 'utf8');
const runId = '01K9Z5N3T8R6V2X4B7C1D0E9FG';

/** The files of the page, by the name in the first line of each block, below a folder of the checkout. */
function pageFolder(): string {
  mkdirSync(join(root, '.vitest'), { recursive: true });
  const folder = mkdtempSync(join(root, '.vitest', 'approvals-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [language, form] of [
    ['ts', /^\/\/ ([\w/-]+\.ts)\n/],
    ['yaml', /^# ([\w/-]+\.yaml)\n/],
  ] as const) {
    for (const code of codeBlocks(page, language)) {
      const [, name] = form.exec(code) ?? [];
      if (!name) throw new Error(`a block does not say which file it is:\n${code}`);
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), code);
    }
  }
  return folder;
}

test('the agent and the tool on the page about approvals are ones that a worker loads', async () => {
  const config = parseConfig({});
  const secrets = createToolSecrets({ folder: undefined, env: {} });
  const redactor = new Redactor();
  const toolkit = createToolkit({ config, secrets, redactor, log: silentLog, clock: systemClock });
  const { agents, problems } = await loadAgents(join(pageFolder(), 'agents'), toolkit.offer);
  expect(problems).toEqual([]);
  const agent = agents.get('refunds');
  expect(agent?.definition).toMatchObject({
    approvals: { approvers: 2 },
    toolOptions: { transfer: { needsApproval: true } },
  });
});

test('the program on the page decides what waits', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-scratch-'));
  const server = await startScratchRedis({ dir, env: process.env, root });
  onTestFinished(() => server.stop());
  const mill = new Millrace({ redis: server.url });
  onTestFinished(() => mill.close());
  const redis = await testRedis('work', server.url);
  const world = { mill, prefix: 'mr', redis, keys: keysFor('mr'), bull: () => '' };
  const call = { kind: 'approval', toolName: 'transfer' } as const;
  const [large, small, other, question] = [
    await suspendedRun(world, [{ ...call, id: 'c1', args: { to: 'kim', amount: 900 } }]),
    await suspendedRun(world, [{ ...call, id: 'c1', args: { to: 'kim', amount: 5 } }]),
    await suspendedRun(world, [{ ...call, id: 'c1', toolName: 'drop_table' }]),
    await suspendedRun(world, [{ kind: 'user_input', id: 'q1', toolName: 'ask_user' }]),
  ];
  vi.stubEnv('REDIS_URL', server.url);
  onTestFinished(() => void vi.unstubAllEnvs());
  await import(pathToFileURL(join(pageFolder(), 'inbox.ts')).href);
  const decisions = async (run: typeof large) => (await run.get()).decisions?.[0];
  expect(await decisions(large)).toMatchObject({ granted: true, edited: true, by: ['inbox'] });
  expect(await decisions(small)).toMatchObject({ granted: true });
  expect(await decisions(other)).toMatchObject({ granted: false, reason: 'unknown tool' });
  expect(await decisions(question)).toMatchObject({ answered: true });
});

test('a run goes on from its state in another process, as the page shows', async () => {
  const folder = pageFolder();
  const { begin, approve } = (await import(pathToFileURL(join(folder, 'save-and-go-on.ts')).href)) as {
    begin: (agent: Agent, input: string, file: string) => Promise<void>;
    approve: (agent: Agent, toolCallId: string, file: string) => Promise<string>;
  };
  const sent: unknown[] = [];
  const send = defineTool({
    name: 'transfer',
    description: 'Sends money.',
    inputSchema: z.object({ amount: z.number() }),
    needsApproval: true,
    execute: ({ amount }) => sent.push(amount),
  });
  const rules = [
    { when: { hasToolResult: true }, answer: { text: 'It is paid.' } },
    { answer: { toolCalls: [{ name: 'transfer', args: { amount: 5 } }] } },
  ];
  writeFileSync(join(folder, 'script.yaml'), JSON.stringify({ rules }));
  vi.stubEnv('MILLRACE_SCRIPT', join(folder, 'script.yaml'));
  onTestFinished(() => void vi.unstubAllEnvs());
  const agent = defineAgent({ id: 'refunds', model: 'demo', instructions: '', tools: [send] });
  const file = join(folder, 'run.json');
  await begin(agent, 'Pay 5 to kim.', file);
  const [item] = (JSON.parse(readFileSync(file, 'utf8')) as RunState).record.pending;
  expect(sent).toEqual([]);
  expect(await approve(agent, item?.id ?? '', file)).toBe('It is paid.');
  expect(sent).toEqual([5]);
});

/** The commands of the page that begin with a word. */
function commands(word: string): string[] {
  return codeBlocks(page, 'sh').flatMap((code) => {
    const values = [...code.matchAll(/^([A-Z]+)=(\S+)$/gm)].map(([, name, value = '']) => [`$${name}`, value] as const);
    const lines = code.split('\n').filter((line) => line.startsWith(`${word} `));
    return lines.map((line) => values.reduce((text, [name, value]) => text.replaceAll(name, value), line));
  });
}

/** The arguments of a command, without a comment after it. */
function argumentsOf(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|"([^"]*)"|(#.*)|(\S+)/g)].flatMap(([, single, double, comment, plain]) =>
    comment === undefined ? [single ?? double ?? plain ?? ''] : [],
  );
}

test('every command on the page is one that there is', async () => {
  const env = { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: testPrefix() };
  const lines = commands('millrace');
  expect(lines.length).toBeGreaterThan(10);
  for (const command of lines) {
    const [stdout, stderr, stdin] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const { signal: interrupted } = new AbortController();
    const cli = { env, cwd: tmpdir(), root, stdin, stdout, stderr, interrupted } as unknown as Cli;
    const code = await runCli(argumentsOf(command).slice(1), cli);
    const said = String(stderr.read() ?? '');
    // There is no such run here: everything else about the command is right.
    expect([command, code === 0 || said.startsWith('run_not_found: '), said]).toEqual([command, true, said]);
  }
});

test('every request on the page is one that the producer understands', async () => {
  const { send } = await serverWorld();
  const requests = commands('curl');
  expect(requests.length).toBeGreaterThan(5);
  for (const command of requests) {
    const args = argumentsOf(command).slice(1);
    const url = args.find((arg) => arg.startsWith('http')) ?? '';
    const at = args.indexOf('-d');
    const headers = { 'content-type': 'application/json' };
    const [method, body] = at < 0 ? (['GET', undefined] as const) : (['POST', args[at + 1]] as const);
    const answer = await send(method, url.replace('http://127.0.0.1:8080', ''), body, method === 'POST' ? headers : {});
    const isFine = answer.status < 300 || answer.body.error?.code === 'run_not_found';
    expect([command, isFine, answer.body]).toEqual([command, true, expect.anything()]);
  }
  expect(page).toContain(runId);
});
