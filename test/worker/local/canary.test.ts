import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { onTestFinished, expect, test } from 'vitest';
import { z } from 'zod';
import { createLog } from '../../../src/shared/base/log.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import type { CreateAgentOptions } from '../../../src/worker/local/agent-handle.ts';
import {
  createAgentNodeExecutor,
  createOpenAICompatibleBackend,
  createRunner,
  defineAgent,
  defineTool,
  runnerDefaults,
  runStateToJSON,
  startWorker,
} from '../../../src/worker/index.ts';
import { Millrace } from '../../../src/producer/client/millrace.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { chat, startRawProvider, status, type RawProvider } from '../../support/raw-provider.ts';

// No pattern of any provider, and signs that every encoding changes.
const canary = 'Canary+of/the=mine&one"quote';

function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  return [
    secret,
    encodeURIComponent(secret),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    JSON.stringify(secret).slice(1, -1),
  ];
}

/** Everything that a model could write to give a secret away, in pieces of three characters. */
function leaking(secret: string): string {
  return `It is ${formsOf(secret).join(' or ')} or https://x.example/?a=1&b=${encodeURIComponent(secret)}#c, that is all.`;
}

function inThrees(text: string): readonly string[] {
  return text.match(/.{1,3}/gs) ?? [];
}

/** A provider that leaks the secret in its reasoning, text and tool calls, and again after the tool, which leaks it too. */
async function leakingProvider(secret: string): Promise<RawProvider> {
  const provider = await startRawProvider(
    chat((body) => {
      const isFirst = !(body.messages as { role: string }[]).some(({ role }) => role === 'tool');
      const leaks = { reasoning: leaking(secret), text: inThrees(leaking(secret)) };
      if (!isFirst) return leaks;
      const calls = ['throw', 'result'].map((how) => ({ name: 'leak', args: { how, note: 'x' } }));
      return { ...leaks, toolCalls: [...calls, { name: 'leak', args: { how: 'result', note: leaking(secret) } }] };
    }),
  );
  onTestFinished(() => provider[Symbol.asyncDispose]());
  return provider;
}

function leakyAgent(secret: string, notes: string[] = []) {
  const leak = defineTool({
    name: 'leak',
    description: 'Leaks.',
    inputSchema: z.object({ how: z.string(), note: z.string() }),
    execute({ how, note }, context) {
      notes.push(note);
      context.progress({ seen: secret, nested: [{ at: leaking(secret) }] });
      if (how === 'throw') throw new Error(leaking(secret));
      return { text: leaking(secret) };
    },
  });
  return defineAgent({ id: 'leaky', model: 'any', tools: [leak] });
}

function expectNone(seen: string, secret: string): void {
  expect(seen).toContain('that is all');
  for (const form of formsOf(secret)) {
    const at = seen.indexOf(form);
    expect(at < 0 ? '' : seen.slice(Math.max(0, at - 200), at + 100), form).toBe('');
  }
}

function providersFile(url: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-canary-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'providers.yaml');
  writeFileSync(path, `- { id: mine, kind: openai, baseUrl: '${url}', keyEnv: MY_KEY }\n`);
  return path;
}

const waysToKnow: readonly [how: string, options: (url: string) => CreateAgentOptions & { env: object }][] = [
  ['as OPENAI_API_KEY', (url) => ({ env: { OPENAI_API_KEY: canary, OPENAI_BASE_URL: url } })],
  ['from a file of providers', (url) => ({ env: { MILLRACE_PROVIDERS: providersFile(url), MY_KEY: canary } })],
  ['in the options', (url) => ({ env: {}, provider: backend(url, canary) })],
  [
    'looked up for each call',
    (url) => ({ env: {}, provider: backend(url, async () => await Promise.resolve(canary)) }),
  ],
  [
    'from a resolver of models',
    (url) => ({
      env: {},
      provider: backend(url, 'none'),
      resolveModel: (model) => ({ provider: backend(url, canary), model }),
    }),
  ],
  ['as the secret of a tool', (url) => ({ env: { OPENAI_BASE_URL: url, MILLRACE_SECRET_CRM: canary } })],
  [
    'as the password of Redis',
    (url) => ({ env: { OPENAI_BASE_URL: url, REDIS_URL: `redis://:${encodeURIComponent(canary)}@h:1` } }),
  ],
];

function backend(baseUrl: string, apiKey: string | (() => Promise<string>)) {
  return createOpenAICompatibleBackend({ baseUrl, model: 'any', apiKey });
}

test.each(waysToKnow)(
  'a key that a program knows %s is in no event, result or state of its runs',
  async (_, optionsFor) => {
    const provider = await leakingProvider(canary);
    const notes: string[] = [];
    const handle = createAgentWith(leakyAgent(canary, notes), optionsFor(provider.url));
    const stream = handle.stream('Hello');
    const seen: unknown[] = [];
    for await (const event of stream) seen.push(event);
    const view = await stream.result;
    expect(view.status).toBe('completed');
    expectNone(JSON.stringify([seen, view]) + runStateToJSON(handle.state(view.runId)), canary);
    // The call whose arguments held it did not run, and the model that wrote it does not get it back.
    expect(notes).toEqual(['x', 'x']);
    expect(JSON.stringify(provider.requests.at(-1)?.body)).toContain('must not be passed on');
  },
);

test('a provider that quotes the key which it refuses does not give it away', async () => {
  await using provider = await startRawProvider(status(401, { message: `bad key ${leaking(canary)}` }));
  const handle = createAgentWith(leakyAgent(canary), {
    env: { OPENAI_API_KEY: canary, OPENAI_BASE_URL: provider.url },
  });
  const stream = handle.stream('Hello');
  const seen: unknown[] = [];
  for await (const event of stream) seen.push(event);
  const view = await stream.result;
  expect(view).toMatchObject({ status: 'failed', error: { code: 'provider_auth' } });
  expectNone(`${JSON.stringify([seen, view])} that is all`, canary);
});

test('a runner gives away no key, in its callbacks, thread and errors neither', async () => {
  const provider = await leakingProvider(canary);
  const env = { OPENAI_API_KEY: canary, OPENAI_BASE_URL: provider.url };
  const defaults = runnerDefaults({ agents: [leakyAgent(canary)], env });
  const { runAgent } = createRunner(defaults);
  const seen: unknown[] = [];
  const record = (...args: unknown[]) => void seen.push(args);
  const callbacks = {
    onEvent: record,
    onThinking: record,
    onAssistantMessage: record,
    onToolUse: record,
    onResponse: record,
    onError: record,
  };
  seen.push(await runAgent('leaky', 'thread-1', 'Hello', callbacks));
  seen.push(defaults.scrub(new Error(leaking(canary))));
  expectNone(JSON.stringify(seen), canary);
});

test('a node gives away no key of its provider', async () => {
  const provider = await leakingProvider(canary);
  const execute = createAgentNodeExecutor({
    resolveProvider: () => backend(provider.url, async () => await Promise.resolve(canary)),
  });
  const seen: unknown[] = [];
  seen.push(
    await execute({
      vertex: {
        id: 'n',
        type: 'agent',
        agent_ref: 'leaky',
        prompt_template: 'Hello',
        resolvedAgent: leakyAgent(canary),
      },
      emit: (body) => void seen.push(body),
      signal: new AbortController().signal,
    }),
  );
  expectNone(JSON.stringify(seen), canary);
});

test('a worker in a program keeps its keys and the password of Redis out of events, records, its log and Redis', async () => {
  const password = 'pass/word+of"redis';
  const redis = await OwnRedis.start({ password });
  const lines: string[] = [];
  // Nothing but the worker keeps secrets out of these lines.
  const log = createLog('mine', 'trace', new Redactor(), { write: (line) => lines.push(line) });
  for (const secret of [canary, password]) {
    const provider = await leakingProvider(secret);
    const worker = await startWorker({
      redis: redis.url,
      agents: [leakyAgent(secret)],
      env: { OPENAI_API_KEY: canary, OPENAI_BASE_URL: provider.url },
      log,
    });
    log.warn({}, 'the program itself may log what it likes');
    const mill = new Millrace({ redis: redis.url });
    onTestFinished(() => mill.close());
    const run = await mill.enqueue({ agent: 'leaky', input: 'Hello' });
    const seen: unknown[] = [];
    for await (const event of run.events()) seen.push(event);
    seen.push(await run.result());
    await worker.stop(1_000);
    expectNone([JSON.stringify(seen), ...lines, redis.files].join('\n'), secret);
  }
});
