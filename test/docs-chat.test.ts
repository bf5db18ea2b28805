import { docsPage, pageCommands, pageFolder, requestOf } from './support/docs-page.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import type { ChatTurnHooks, Millrace } from '../src/producer/index.ts';
import { startScratchRedis } from './support/scratch-redis.ts';
import { defineAgent, startWorker } from '../src/worker/index.ts';
import { scriptedModel } from '../src/testing/scripted-model.ts';
import { always } from '../src/testing/scripts.ts';
import { readAll, shownText, typesOf, type Line } from './producer/chat/support.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { codeBlocks } from './support/markdown.ts';

const page = docsPage('chat.md');
const text = 'It was sent.';

/** Imports a program of the page, by the name in its first line. */
async function program<T>(name: string): Promise<T> {
  const folder = pageFolder({ inCheckout: true });
  const code = codeBlocks(page, 'ts').find((block) => block.startsWith(`// ${name}\n`));
  writeFileSync(join(folder, name), code ?? `throw new Error('there is no ${name} on the page')`);
  return (await import(pathToFileURL(join(folder, name)).href)) as T;
}

/** A worker that answers every turn. */
async function answering(redis: string, prefix: string): Promise<void> {
  const agents = [defineAgent({ id: 'support', model: 'gpt-5.2-mini' })];
  const worker = await startWorker({ redis, prefix, agents, provider: scriptedModel(always(text)) });
  onTestFinished(() => worker.stop(1_000));
}

/** The requests of the page, in order. */
const requests = pageCommands(page, 'curl').map(requestOf);

test('the requests of the page do what it says: a turn, the rest of it, and a run that does not exist', async () => {
  const world = await serverWorld();
  await answering(inject('redisUrl'), world.prefix);
  const answers: [number, unknown][] = [];
  for (const { method, path, headers, body } of requests) {
    const answer = await world.send(method, path, body, headers);
    answers.push([answer.status, answer.body]);
  }
  expect(answers.map(([status]) => status)).toEqual([200, 200, 404]);
  const [whole = [], rest = []] = answers.slice(0, 2).map(([, body]) =>
    String(body)
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line),
  );
  expect(shownText(whole)).toBe(text);
  expect(whole[0]?.data.executionId).toBe(requests[1]?.headers['x-execution-id']);
  const at = whole.findLastIndex(({ seq = 0 }) => seq <= 6);
  expect(typesOf(rest)).toEqual(typesOf(whole.slice(at + 1)));
  const shown = codeBlocks(page, 'json').flatMap((code) =>
    code
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line),
  );
  expect(new Set(typesOf(whole))).toEqual(
    new Set([...typesOf(shown), 'control_step', 'llm_call'].filter((type) => type !== 'heartbeat')),
  );
  expect(Object.keys(shown[0]?.data)).toEqual(Object.keys(whole[0]?.data));
});

test('the program on the page follows a turn, and finds it again', async () => {
  const server = await startScratchRedis();
  onTestFinished(() => server.stop());
  await answering(server.url, 'mr');
  vi.stubEnv('REDIS_URL', server.url);
  const said: unknown[][] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((...args) => void said.push(args));
  onTestFinished(() => {
    vi.unstubAllEnvs();
    log.mockRestore();
  });
  await program('follow-a-turn.ts');
  expect(said[0]?.[0]).toBe('session.run.started');
  const end = said.findIndex(([first]) => first === text);
  expect(said[end - 1]?.[0]).toBe('session.run.completed');
  expect(said.slice(end + 1).every(([seq]) => Number(seq) > 4)).toBe(true);
});

test('the handler on the page streams a turn of a worker and stores it', async () => {
  const world = await serverWorld();
  await answering(inject('redisUrl'), world.prefix);
  const { answer } = await program<{
    answer: (mill: Millrace, asked: object, save: (turn: string, text: string) => Promise<void>) => Response;
  }>('chat-handler.ts');
  const saved: string[] = [];
  const asked = { sessionId: 's-page', userId: 'kim', turnIndex: 0, message: 'Where is order 7?' };
  const response = answer(world.mill, asked, async (turn, stored) => void saved.push(`${turn}: ${stored}`));
  const lines = await readAll(response.body as ReadableStream<Uint8Array>);
  expect([shownText(lines), lines.at(-1)?.type]).toEqual([text, 'session.run.completed']);
  expect(saved).toEqual([`s-page/0: ${text}`]);
});

test('the handler without Redis answers with the model that is configured', async () => {
  vi.stubEnv('MILLRACE_SCRIPT', 'builtin');
  const log = vi.spyOn(console, 'log').mockImplementation(() => {});
  onTestFinished(() => {
    vi.unstubAllEnvs();
    log.mockRestore();
  });
  type Answer = (sessionId: string, turnIndex: number, message: string) => ReadableStream<Uint8Array>;
  const { answer } = await program<{ answer: Answer }>('without-redis.ts');
  const lines = await readAll(answer('s-page-alone', 0, 'Hello'));
  expect(shownText(lines)).not.toBe('');
  expect(log).toHaveBeenCalledWith(shownText(lines));
  expect(lines.at(-1)?.type).toBe('session.run.completed');
});

test('the table of hooks has exactly the hooks that there are', () => {
  const hooks: Record<keyof ChatTurnHooks, true> = {
    produce: true,
    accumulate: true,
    transformFinalText: true,
    persistAssistantMessage: true,
    onTurnComplete: true,
    onEvent: true,
    traceFlush: true,
  };
  const [table = ''] = /\| hook [\s\S]*?\n\n/.exec(page) ?? [];
  const names = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
  expect(names).toEqual(Object.keys(hooks));
});
