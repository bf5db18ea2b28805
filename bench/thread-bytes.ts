import { printTable, redisCounters } from './measure.ts';
import { Redis } from 'ioredis';
import { Millrace } from '../src/producer/index.ts';
import { systemClock } from '../src/shared/base/clock.ts';
import { startScratchRedis } from '../test/support/scratch-redis.ts';
import { silentLog } from '../src/shared/base/log.ts';
import type { ThreadRun } from '../src/shared/state/thread/lock.ts';
import type { ThreadEntry, ThreadMessage } from '../src/shared/contract/thread/thread.ts';
import { type ThreadStore, redisThreads } from '../src/shared/state/thread/threads.ts';
import { connect, whenReady } from '../src/shared/state/connect.ts';
import { keysFor, type Keys } from '../src/shared/state/keys.ts';
import { tenantsOf } from '../src/shared/contract/tenants.ts';
import { singleProvider, modelsOf } from '../src/worker/agents/agent-models.ts';
import { defineAgent, defineTool } from '../src/worker/index.ts';
import { createPriceLookup } from '../src/worker/llm/prices.ts';
import { createScriptedProvider } from '../src/worker/llm/backends/scripted.ts';
import { CancelWatch } from '../src/worker/run/signals.ts';
import { FlushTimer } from '../src/worker/run/writer.ts';
import { loadedFrom } from '../src/worker/agents/loaded-agent.ts';
import type { RunDeps, OpenRun } from '../src/worker/run/run-context.ts';
import { openRun } from '../src/worker/run/open-run.ts';
import { settle } from '../src/worker/run/settle.ts';
import { openToolbox } from '../src/worker/run/toolbox.ts';
import { turnFor } from '../src/worker/run/turn-for.ts';
import { redisRuns } from '../src/shared/state/run/run-store.ts';
import { runTurn, type TurnOutcome } from '../src/worker/turn/turn.ts';
import { z } from 'zod';
import { createInMemoryPorts } from '../src/worker/local/stores/in-memory.ts';
import { runKeySpace } from '../test/support/run-key-space.ts';

// What a run leaves in Redis that makes 100 tool calls of 5 KB each on a conversation of 200,000 tokens (800 KB), with
// the window of its model at 128,000 tokens, so that it is compacted again and again. The conversation is a thread. `--calls N` says how many (100).

const callsAt = process.argv.indexOf('--calls');
const calls = callsAt > 0 ? Number(process.argv[callsAt + 1]) : 100;
const resultBytes = 5 * 1_024;
const conversationBytes = 800 * 1_024;

/** Words, so that neither Redis nor an estimate of tokens finds them simpler than a text is. */
function textOf(bytes: number, seed: number): string {
  let text = '';
  for (let word = seed; text.length < bytes; word = (word * 48_271) % 2_147_483_647) text += `${word.toString(36)} `;
  return text.slice(0, bytes);
}

const conversation: readonly ThreadMessage[] = Array.from({ length: 200 }, (_, turn): ThreadMessage[] => [
  { role: 'user', content: textOf(conversationBytes / 400, 2 * turn + 1) },
  { role: 'assistant', parts: [{ type: 'text', text: textOf(conversationBytes / 400, 2 * turn + 2) }] },
]).flat();

/** As if an earlier run had written it. */
async function fill(threads: ThreadStore, thread: ThreadRun): Promise<void> {
  const lock = await threads.acquire({ ...thread, epoch: 1 });
  if (lock.kind !== 'acquired') throw new Error('another run has the lock of the thread');
  const at = new Date().toISOString();
  const { runId, tenant, threadId } = thread;
  const entries = conversation.map((message, n): ThreadEntry => ({
    v: 1,
    t: 'message',
    runId,
    at,
    key: `${n}`,
    message,
  }));
  await threads.append({ ...thread, fence: lock.fence }, 'fill', entries);
  await threads.leave(tenant, threadId, runId);
}

const lookUp = defineTool({
  name: 'look_up',
  description: 'Looks something up.',
  inputSchema: z.object({ n: z.number() }),
  effect: 'read',
  execute: ({ n }) => textOf(resultBytes, 10_000 + n),
});

function provider() {
  let asked = 0;
  return createScriptedProvider((request) => {
    if (!request.tools) return { text: textOf(6_000, 7) };
    asked++;
    return asked <= calls ? { toolCalls: [{ name: 'look_up', args: { n: asked } }] } : { text: 'Everything is known.' };
  });
}

async function main(): Promise<void> {
  await using scratch = await startScratchRedis();
  const rows = [
    await measure(scratch.url, 'everything', {}),
    await measure(scratch.url, 'summaries', { compaction: {} }),
  ];
  const head = [
    'the model sees',
    'summaries',
    'transcript KB',
    'thread KB',
    'journal KB',
    'events KB',
    'sent KB',
    'running',
    'memory',
    'without events',
    'kept',
  ];
  printTable([head, ...rows]);
  const ratio = Number(rows.at(-1)?.at(-1));
  console.log(`\nbytes in Redis against the transcript: ${ratio}, ≤ 1.5 ${ratio <= 1.5 ? 'met' : 'missed'}`);
}

async function measure(redisUrl: string, name: string, more: { readonly compaction?: object }): Promise<string[]> {
  const redis = connect(redisUrl, 'work', () => {});
  await whenReady(redis, 5_000);
  const keys = keysFor(name);
  const limits = { maxSteps: 10_000, maxLlmCalls: 10_000, maxToolCalls: 10_000 };
  const agent = loadedFrom(defineAgent({ id: 'reader', model: 'm', tools: [lookUp], limits, ...more }));
  const runs = redisRuns({ ...runKeySpace(redis, keys), clock: systemClock, log: silentLog });
  const threads = redisThreads({ redis, keys, cluster: false, clock: systemClock }, async () => {});
  const ports = { ...createInMemoryPorts({}), runs, threads };
  const deps: RunDeps = {
    ports,
    agents: new Map([['reader', agent]]),
    flushTimer: new FlushTimer(25),
    cancels: new CancelWatch(ports),
    limitCaps: { maxSteps: 10_000, maxJournalBytes: Number.POSITIVE_INFINITY },
    maxInlineWaitMs: 1_000,
    tenants: tenantsOf({}),
    tools: { log: silentLog },
    wake: () => {},
    stopping: () => false,
    ...modelsOf(singleProvider(provider()), { price: createPriceLookup() }),
  };
  await fill(threads, { tenant: 'default', threadId: 'long', runId: 'before', agentId: 'reader' });
  const client = new Redis(redisUrl);
  const before = await redisCounters(client);
  await using mill = new Millrace({ redis: redisUrl, prefix: name });
  const { runId } = await mill.enqueue({ agent: 'reader', input: 'Look everything up.', thread: 'long' });
  const delivery = {
    jobTry: 1,
    queue: 'runs',
    worker: 'bench',
    crashLimit: 1,
    blameLimit: 1,
    activity: 'idle' as const,
  };
  const { signal } = new AbortController();
  const opened = await openRun({ runId, segment: 0 }, delivery, deps, signal);
  if (opened.kind !== 'open') throw new Error(`the run is ${opened.kind}`);
  await using run = opened.run;
  const outcome = await turnOf(run, deps);
  const working = (await written(client, keys, runId)).reduce((sum, bytes) => sum + bytes, 0);
  await settle(run, outcome, deps);
  const after = await redisCounters(client);
  const left = await written(client, keys, runId);
  const used = await bytesOf(client, ...(await client.keys(`${name}:*`)));
  const replayed = await bytesOf(client, keys.events(runId));
  client.disconnect();
  redis.disconnect();
  if (outcome.status !== 'completed') throw new Error(`the run is ${outcome.status}`);
  const transcript = Buffer.byteLength(JSON.stringify([...conversation, ...outcome.state.own]));
  const summaries = outcome.state.attempts.filter(({ purpose }) => purpose === 'summary').length;
  const sizes = [transcript, ...left, after.bytesIn - before.bytesIn];
  const kept = left.reduce((sum, bytes) => sum + bytes, 0);
  const ratios = [working / transcript, used / transcript, (used - replayed) / transcript, kept / transcript];
  return [
    name,
    String(summaries),
    ...sizes.map((bytes) => (bytes / 1_024).toFixed(0)),
    ...ratios.map((ratio) => ratio.toFixed(2)),
  ];
}

async function turnOf(run: OpenRun, deps: RunDeps): Promise<TurnOutcome> {
  const { agent } = run.assignment;
  const { signal } = run.signals;
  if (!agent) throw new Error('the run has no agent');
  const about = { record: run.record, state: run.state, emit: () => {} };
  await using toolbox = await openToolbox(agent, about, deps.tools, signal);
  const turn = turnFor(run, deps, { system: '', toolbox });
  if (turn instanceof Error) throw turn;
  return await runTurn(turn.spec, run.state, turn.deps, signal);
}

/** Bytes of what was written of the thread, the journal and the events, without what Redis needs around them. */
async function written(redis: Redis, keys: Keys, runId: string): Promise<readonly number[]> {
  const [thread, events] = await Promise.all(
    [keys.thread('default', 'long', 'log'), keys.events(runId)].map(async (key) => await redis.xrange(key, '-', '+')),
  );
  const journal = await redis.lrange(keys.journal(runId), 0, -1);
  const sizeOf = (texts: readonly string[]) => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  const fieldsOf = (entries: readonly (readonly [string, readonly string[]])[] = []) =>
    entries.flatMap(([, fields]) => fields);
  return [sizeOf(fieldsOf(thread)), sizeOf(journal), sizeOf(fieldsOf(events))];
}

/** With what Redis itself needs for them, by its own estimate. */
async function bytesOf(redis: Redis, ...names: readonly string[]): Promise<number> {
  const sizes = await Promise.all(names.map((key) => redis.memory('USAGE', key, 'SAMPLES', 0)));
  return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
}

await main();
