import { spawn } from 'node:child_process';
import { createReadStream, mkdtempSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import OpenAI from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import type { RunView } from '../../src/producer/index.ts';
import type { Child } from '../support/child.ts';
import { call } from '../support/http.ts';
import { MemoryWatch } from '../support/memory.ts';
import { openaiForPython } from '../support/openai-python.ts';
import { planInput } from '../support/plan.ts';
import { keepAlive } from '../support/platform.ts';
import { withoutPython } from '../support/python.ts';
import { until } from '../support/redis.ts';
import { seeded } from '../support/seeded.ts';
import { makeWorld, type World } from '../support/world.ts';

/** `DOORS_LINES=10000` is what a large file is; fewer show the same. */
const lines = Number(process.env['DOORS_LINES'] ?? 2_000);
const linesOfPython = lines / 10;
/** Each line whose number ends so asks for an agent that does not exist. */
const badEvery = 100;
const killEveryMs = 4_000;
const waitMs = 1_500_000;
/** A producer that keeps something of every line dies of it: what is left of a larger heap is not yet collected. */
const smallHeap = { NODE_OPTIONS: '--max-old-space-size=128 --max-semi-space-size=16' };
const program = join(import.meta.dirname, '../fixtures/openai-python/doors.py');

test.skipIf(withoutPython !== undefined)(
  'unmodified clients resume what a killed producer began, and run batches while workers and producers are killed',
  { timeout: waitMs + 120_000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-doors-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const world = await makeWorld({
      workers: 2,
      env: { ARTIFACT_STORE: `file:${join(folder, 'store')}`, LOG_LEVEL: 'info', RESULT_TTL_S: '86400' },
    });
    const door = await Door.open(world);
    using memory = new MemoryWatch(() => door.pid, 'idle');
    const client = new OpenAI({ baseURL: `${door.url}/v1`, apiKey: 'none', maxRetries: 12 });
    const files = { ours: join(folder, 'lines.jsonl'), python: join(folder, 'python.jsonl') };
    await writeLines(files.ours, lines, (plan) => ['/v1/responses', { input: plan }]);
    await writeLines(files.python, linesOfPython, (plan) => [
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: plan }] },
    ]);
    const text = 'one two three four';
    const python = startPython(door.url, heldPlan(text, 'python'), files.python);

    memory.phase = 'stream';
    await python.said('begun');
    const resumed = await cutAndResume(client, heldPlan(text, 'ours'), door, async () => {
      await python.said('cut');
      await door.reopen();
      python.goOn();
      for (const gate of ['python', 'ours']) world.provider.gates.open(gate);
    });
    expect(resumed).toEqual({ numbers: true, text, end: 'response.completed' });
    expect(await python.said('end')).toEqual({ numbers: true, text, end: 'response.completed' });

    memory.phase = 'upload';
    const file = await client.files.create({ file: createReadStream(files.ours), purpose: 'batch' });
    const created = await client.batches.create({
      input_file_id: file.id,
      endpoint: '/v1/responses',
      completion_window: '24h',
    });
    const beganAt = Date.now();
    await using storm = killWorkers(world);
    const killAt = [0.25, 0.6];
    const batch = await until(
      'the batch has ended',
      async () => {
        const now = await client.batches.retrieve(created.id);
        const done = (now.request_counts?.completed ?? 0) / lines;
        memory.phase = `batch ${Math.min(9, Math.floor(done * 10)) * 10} %`;
        if (killAt[0] !== undefined && done >= killAt[0]) {
          killAt.shift();
          await door.kill();
          await door.reopen();
        }
        return ['completed', 'failed', 'expired', 'cancelled'].includes(now.status) ? now : undefined;
      },
      waitMs,
    );
    const seconds = Math.round((Date.now() - beganAt) / 1_000);
    memory.phase = 'download';
    const bad = Math.floor(lines / badEvery);
    expect(batch).toMatchObject({
      status: 'completed',
      request_counts: { total: lines, completed: lines - bad, failed: bad },
    });
    const output = await rowsOf(client, batch.output_file_id);
    const errors = await rowsOf(client, batch.error_file_id);
    expect([...output, ...errors].map(({ custom_id: id }) => id).toSorted()).toEqual(idsOf(lines));
    for (const { custom_id: id, response } of output)
      expect(response?.body.output.at(-1)?.content[0]?.text).toBe(`This is the answer to ${id}.`);
    expect(errors.map(({ custom_id: id }) => Number(id.slice(5)) % badEvery)).toEqual(errors.map(() => badEvery - 1));

    const ofPython = await python.said('status');
    const badOfPython = Math.floor(linesOfPython / badEvery);
    expect(ofPython).toMatchObject({
      status: 'completed',
      counts: { total: linesOfPython, completed: linesOfPython - badOfPython, failed: badOfPython },
      ids: idsOf(linesOfPython).filter((_, i) => i % badEvery !== badEvery - 1),
    });
    memory.phase = 'sums';
    const runs = await runsOf(door.url, created.id);
    expect(runs).toHaveLength(lines - bad);
    expect(batch).toMatchObject({
      cost: { microcents: sum(runs.map((run) => run.costMicrocents)) },
      usage: {
        input_tokens: sum(runs.map(({ usage }) => (usage?.input ?? 0) + (usage?.cached ?? 0))),
        output_tokens: sum(runs.map(({ usage }) => usage?.output ?? 0)),
      },
    });
    const { phases } = memory;
    process.stdout.write(
      `${lines} lines in ${seconds} s (${Math.round(lines / seconds)} a second), ${storm.kills} workers killed, ` +
        `the producer ${door.kills} times; ${world.provider.calls.length} model calls. Memory of the producer in MB:\n` +
        `${phases.map(({ phase, most, median }) => `  ${phase}: median ${median}, most ${most}`).join('\n')}\n`,
    );
    expect(Math.max(...phases.map(({ most }) => most)), 'MB of the producer').toBeLessThan(300);
    const ofBatch = phases.filter(({ phase }) => phase.startsWith('batch'));
    expect((ofBatch.at(-1)?.median ?? 0) - (ofBatch[0]?.median ?? 0), 'MB that came with lines').toBeLessThan(60);
  },
);

/** The one producer of this test: whoever takes its place listens on its port. */
class Door {
  kills = 0;
  readonly url: string;
  readonly #world: World;
  #child: Child;

  private constructor(world: World, { child, url }: { readonly child: Child; readonly url: string }) {
    this.#world = world;
    this.#child = child;
    this.url = url;
  }

  static async open(world: World): Promise<Door> {
    return new Door(world, await world.fleet.startProducer(smallHeap));
  }

  get pid(): number {
    return this.#child.pid;
  }

  async kill(): Promise<void> {
    this.kills += 1;
    await this.#child.kill();
  }

  async reopen(): Promise<void> {
    const { child } = await this.#world.fleet.startProducer({ ...smallHeap, PORT: new URL(this.url).port });
    this.#child = child;
  }
}

function heldPlan(text: string, gate: string): string {
  return planInput({ text, pieces: 4, hold: { gate, afterPieces: 2 } });
}

const idAt = (i: number) => `line-${String(i).padStart(5, '0')}`;
const idsOf = (count: number) => Array.from({ length: count }, (_, i) => idAt(i));

/** A file of so many requests, each of a kilobyte. */
async function writeLines(path: string, count: number, requestOf: (plan: string) => readonly [string, object]) {
  await using file = await open(path, 'w');
  for (let i = 0; i < count; i++) {
    const [url, asked] = requestOf(planInput({ text: `This is the answer to ${idAt(i)}.` }));
    const model = i % badEvery === badEvery - 1 ? 'nobody' : 'plain';
    const body = { model, ...asked, metadata: { note: 'n'.repeat(500), more: 'm'.repeat(300) } };
    await file.write(`${JSON.stringify({ custom_id: idAt(i), method: 'POST', url, body })}\n`);
  }
}

/** Streams a response, kills the producer within its text, and goes on at the next one. */
async function cutAndResume(client: OpenAI, input: string, door: Door, onCut: () => Promise<void>) {
  const seen: { readonly sequence_number: number; readonly type: string; readonly delta?: unknown }[] = [];
  let id = '';
  const cut = async () => {
    for await (const event of await client.responses.create({
      model: 'plain',
      input,
      background: true,
      stream: true,
    })) {
      seen.push(event);
      if (event.type === 'response.created') ({ id } = event.response);
      if (event.type === 'response.output_text.delta') void door.kill();
    }
  };
  await expect(cut()).rejects.toThrow('terminated');
  await onCut();
  const last = seen.at(-1)?.sequence_number ?? 0;
  for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: last }))
    seen.push(event);
  return {
    numbers: seen.every(({ sequence_number: number }, i) => number === i),
    text: seen.map(({ type, delta }) => (type === 'response.output_text.delta' ? delta : '')).join(''),
    end: seen.at(-1)?.type,
  };
}

/** The Python program. `said` waits for the line that has this field. */
function startPython(url: string, plan: string, file: string) {
  const child = spawn(openaiForPython(), [program, url, plan, file], { stdio: ['pipe', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const said: Record<string, unknown>[] = [];
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  createInterface({ input: child.stdout }).on('line', (line) => said.push(JSON.parse(line) as Record<string, unknown>));
  return {
    goOn: () => void child.stdin.write('\n'),
    said: async (field: string) =>
      await until(
        `Python says ${field}`,
        () => {
          const found = said.find((line) => field in line);
          if (!found && child.exitCode !== null) throw new Error(`Python ended with ${child.exitCode}: ${errors}`);
          return found;
        },
        waitMs,
      ),
  };
}

/** A worker dies every few seconds, and the platform starts another one in its place. */
function killWorkers(world: World) {
  const random = seeded();
  const restarted = keepAlive(world);
  const timer = setInterval(() => {
    const alive = world.workers.filter((worker) => worker.isAlive);
    // While one starts, the other one works.
    if (alive.length > 1) void alive[random.below(alive.length)]?.kill();
  }, killEveryMs);
  return {
    get kills() {
      return restarted.restarts;
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
    },
  };
}

interface Row {
  readonly custom_id: string;
  readonly response: {
    readonly body: { readonly output: readonly { readonly content: readonly { text: string }[] }[] };
  } | null;
}

async function rowsOf(client: OpenAI, file: string | undefined): Promise<readonly Row[]> {
  if (file === undefined) return [];
  const text = await (await client.files.content(file)).text();
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Row);
}

async function runsOf(url: string, batch: string): Promise<readonly RunView[]> {
  const runs: RunView[] = [];
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const from = cursor === '' ? '' : `&cursor=${cursor}`;
    const { body } = await call('GET', `${url}/v1/runs?batch=${batch}&limit=100${from}`);
    runs.push(...(body.runs as RunView[]));
    cursor = body.cursor as string | undefined;
  }
  return runs;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
