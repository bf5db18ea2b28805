import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Fleet } from '../../support/fleet.ts';
import { rounds } from '../../support/lane.ts';
import { until } from '../../support/redis.ts';
import { readResults, scratchFolder, writeLines } from '../batch/support.ts';
import { clientWorld, request } from './options/client.ts';
import { CliCommand, CliProcess, millrace, root, settings } from './support/cli-process.ts';

const script = `rules:\n  - answer: { text: one two three four five, deltaMs: 20 }\n`;

/** A real worker with the sample agents, and a file of lines for it. */
async function batchWorld(lines: readonly unknown[]) {
  const folder = scratchFolder();
  writeFileSync(join(folder, 'script.yaml'), script);
  const fleet = new Fleet({
    env: {
      MILLRACE_AGENTS: join(root, 'agents'),
      MILLRACE_SCRIPT: join(folder, 'script.yaml'),
      WORKER_CONCURRENCY: '10',
    },
  });
  onTestFinished(() => fleet.dispose());
  await fleet.startWorker();
  const file = join(folder, 'in.jsonl');
  writeLines(file, lines);
  const out = join(folder, 'out.jsonl');
  const env = settings(fleet.prefix);
  return { fleet, file, out, env, args: ['batch', file, '--agent', 'summarise', '-o', out] };
}

test('many lines run on a real worker, stopped half-way and continued, and none of them twice', async () => {
  const count = rounds({ fast: 60, all: 200 });
  const lines = Array.from({ length: count }, (_, index) => `line ${index + 1}`);
  const { fleet, out, env, args } = await batchWorld(lines);
  const first = new CliCommand([...args, '--window', String(count / 5)], { env });
  await until('a quarter of the lines', () => readable(out) >= count / 4, 30_000);
  first.signal('SIGINT');
  expect(await first.exited).toBe(130);
  expect(first.stderr).toContain('Give the same command again to go on');
  expect(readable(out)).toBeLessThan(count);

  const second = await millrace([...args, '--json'], { env });
  expect(second.code).toBe(0);
  expect(JSON.parse(second.stdout)).toMatchObject({ end: 'finished', total: count, finished: count, failed: 0 });
  const results = readResults(out);
  expect(results.map(({ line }) => line).toSorted((a, b) => a - b)).toEqual(lines.map((_, index) => index + 1));
  expect(new Set(results.map(({ runId }) => runId)).size).toBe(count);
  expect(results.every(({ text, costMicrocents }) => text === 'one two three four five' && costMicrocents > 0)).toBe(
    true,
  );
  const views = await Promise.all(results.map(({ runId }) => fleet.mill.get(runId as string)));
  expect(views.filter(({ attempts }) => attempts.length !== 1)).toEqual([]);
}, 90_000);

test('a command that was killed goes on in a file whose bad line was corrected, and pays for no line twice', async () => {
  const count = rounds({ fast: 40, all: 150 });
  const lines: unknown[] = Array.from({ length: count }, (_, index) => ({
    custom_id: `q${index}`,
    input: `q ${index}`,
  }));
  lines[1] = { custom_id: 'q1' };
  const { fleet, file, out, env, args } = await batchWorld(lines);
  const first = new CliCommand([...args, '--window', '8'], { env });
  await until('a quarter of the lines', () => readable(out) >= count / 4, 30_000);
  first.signal('SIGKILL');
  await first.exited;
  expect(first.stderr).toContain(`${file}:2: validation: the line needs \`input\`, the text for the agent`);

  lines[1] = { custom_id: 'q1', input: 'q 1' };
  writeLines(file, [{ custom_id: 'added', input: 'added' }, ...lines]);
  const second = await millrace([...args, '--json'], { env });
  expect(second.stderr).not.toContain('validation');
  expect(JSON.parse(second.stdout)).toMatchObject({ end: 'finished', batch: 'in', total: count + 1, failed: 0 });
  const results = readResults(out).toSorted((a, b) => a.line - b.line);
  expect(results.map(({ line, id }) => [line, id])).toEqual([
    [1, 'added'],
    ...lines.map((_, index) => [index + 2, `q${index}`]),
  ]);
  const { runs } = await fleet.mill.list({ limit: 100 });
  const ours = new Set(results.map(({ runId }) => runId));
  expect(ours.size).toBe(count + 1);
  expect(runs.filter(({ runId, attempts }) => !ours.has(runId) || attempts.length !== 1)).toEqual([]);
}, 90_000);

/** Lines that are there; the file may not be there yet. */
function readable(out: string): number {
  try {
    return readResults(out).length;
  } catch {
    return 0;
  }
}

test('a bad line is named with its number, the others run, and the exit code says that something failed', async () => {
  const { out, env, args } = await batchWorld(['fine', { colour: 'red' }, 'fine too']);
  const { code, stdout, stderr } = await millrace(args, { env });
  expect(stderr).toContain(
    'in.jsonl:2: validation: the line needs `input`, the text for the agent; colour: is not a known field',
  );
  expect(stderr).toContain('never became a run: correct them and give the same command again');
  expect(stdout).toContain('3 lines, 1 failed');
  expect(readResults(out)).toHaveLength(3);
  expect(code).toBe(1);
});

test('--deadline holds for each run, and a line may have one of its own', async () => {
  const { fleet, out, env, args } = await batchWorld(['fine', { input: 'own', deadlineMs: 30_000 }]);
  const { code, stderr } = await millrace([...args, '--deadline', '60'], { env });
  expect(stderr).not.toContain('validation');
  expect(code).toBe(0);
  const allowed = readResults(out).map(async ({ line, runId }) => {
    const { createdAt, deadlineAt = '' } = await fleet.mill.get(runId as string);
    return [line, Date.parse(deadlineAt) - Date.parse(createdAt)];
  });
  expect(new Map((await Promise.all(allowed)) as [number, number][])).toEqual(
    new Map([
      [1, 60_000],
      [2, 30_000],
    ]),
  );
});

test('a file that is not there, and an output file of another batch, are usage errors', async () => {
  const { prefix, mill } = await clientWorld();
  await mill.enqueue(request);
  const missing = await millrace(['batch', 'nowhere.jsonl', '-o', join(scratchFolder(), 'out.jsonl')], {
    env: settings(prefix),
  });
  expect(missing.stderr).toContain('nowhere.jsonl cannot be read');
  expect(missing.code).toBe(2);
  const foreign = await millrace(['batch', 'examples/orders.jsonl', '-o', 'examples/orders.jsonl'], {
    env: settings(prefix),
  });
  expect(foreign.stderr).toContain('choose another output file');
  expect(foreign.code).toBe(2);
});

test('a second command on an output file ends with who has it, and one that was killed holds nothing up', async () => {
  const { prefix } = await clientWorld();
  const env = settings(prefix);
  const folder = scratchFolder();
  writeLines(join(folder, 'in.jsonl'), ['one', 'two']);
  const out = join(folder, 'out.jsonl');
  const args = ['batch', join(folder, 'in.jsonl'), '--agent', 'support', '-o', out];
  const first = new CliProcess(args, { env });
  await until('the first command to have the file', () => existsSync(`${out}.lock`), 30_000);
  const second = await millrace(args, { env });
  expect(second.stderr).toContain(
    `${out}: another batch command writes it (the process ${first.pid} on ${hostname()}, since `,
  );
  expect(second.stderr).toContain('wait for it or stop it, and give the same command again');
  expect(second.code).toBe(2);
  first.signal('SIGTERM');
  expect(await first.exited).toBe(130);
  expect(existsSync(`${out}.lock`)).toBe(false);

  const killed = new CliProcess(args, { env });
  await until('the lock', () => existsSync(`${out}.lock`), 30_000);
  killed.signal('SIGKILL');
  await killed.exited;
  expect(existsSync(`${out}.lock`)).toBe(true);
  const next = new CliCommand(args, { env });
  await until('the lock', () => readFileSync(`${out}.lock`, 'utf8').includes(`"pid":${process.pid},`), 30_000);
  next.signal('SIGINT');
  expect(await next.exited).toBe(130);
  expect(existsSync(`${out}.lock`)).toBe(false);
}, 90_000);
