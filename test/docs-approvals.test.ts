import {
  argumentsOf,
  docsPage,
  pageAgents,
  pageCommands,
  pageFiles,
  pageFolder,
  requestOf,
} from './support/docs-page.ts';
import { millrace } from './producer/cli/support/cli-process.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { Millrace } from '../src/producer/client/millrace.ts';
import { startScratchRedis } from './support/scratch-redis.ts';
import { keysFor } from '../src/shared/state/keys.ts';
import { defineAgent, defineTool, type Agent, type RunState } from '../src/worker/index.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { suspendedRun } from './producer/support/suspended.ts';
import { testPrefix, testRedis } from './support/redis.ts';

const page = docsPage('approvals.md');
const runId = '01K9Z5N3T8R6V2X4B7C1D0E9FG';

test('the agent and the tool on the page about approvals are ones that a worker loads', async () => {
  const { agents, problems } = await pageAgents(pageFiles(page).folder);
  expect(problems).toEqual([]);
  const agent = agents.get('refunds');
  expect(agent?.definition).toMatchObject({
    approvals: { approvers: 2 },
    toolOptions: { transfer: { needsApproval: true } },
  });
});

test('the program on the page decides what waits', async () => {
  const server = await startScratchRedis();
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
  await import(pathToFileURL(join(pageFiles(page, pageFolder({ inCheckout: true })).folder, 'inbox.ts')).href);
  const decisions = async (run: typeof large) => (await run.get()).decisions?.[0];
  expect(await decisions(large)).toMatchObject({ granted: true, edited: true, by: ['inbox'] });
  expect(await decisions(small)).toMatchObject({ granted: true });
  expect(await decisions(other)).toMatchObject({ granted: false, reason: 'unknown tool' });
  expect(await decisions(question)).toMatchObject({ answered: true });
});

test('a run goes on from its state in another process, as the page shows', async () => {
  const { folder } = pageFiles(page, pageFolder({ inCheckout: true }));
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

test('every command on the page is one that there is', async () => {
  const env = { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: testPrefix() };
  const lines = pageCommands(page, 'millrace');
  expect(lines.length).toBeGreaterThan(10);
  for (const command of lines) {
    const { code, stderr } = await millrace(argumentsOf(command), { env });
    // There is no such run here: everything else about the command is right.
    expect([command, code === 0 || stderr.startsWith('run_not_found: '), stderr]).toEqual([command, true, stderr]);
  }
});

test('every request on the page is one that the producer understands', async () => {
  const { send } = await serverWorld();
  const requests = pageCommands(page, 'curl');
  expect(requests.length).toBeGreaterThan(5);
  for (const command of requests) {
    const { method, path, headers, body } = requestOf(command);
    const answer = await send(method, path, body, headers);
    const isFine = answer.status < 300 || answer.body.error?.code === 'run_not_found';
    expect([command, isFine, answer.body]).toEqual([command, true, expect.anything()]);
  }
  expect(page).toContain(runId);
});
