import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { rounds } from '../../support/lane.ts';
import { until } from '../../support/redis.ts';
import { clientWorld, request } from './options/client.ts';
import { scratchFolder, writeLines } from '../batch/support.ts';
import { batchWorld, readResults } from './support/batch-command.ts';
import { CliCommand, CliProcess, millrace, settings } from './support/cli-process.ts';

const numbered = (count: number) => Array.from({ length: count }, (_, index) => `line ${index + 1}`);

test('many lines run on a real worker; the command is stopped half-way and given again, and no line runs twice', async () => {
  const count = rounds({ fast: 60, all: 200 });
  const { fleet, out, env, args } = await batchWorld(numbered(count));
  const first = new CliCommand([...args, '--window', '10'], { env });
  await until('a quarter of the lines', async () => (await doneOf(fleet.mill)) >= count / 4);
  first.signal('SIGINT');
  expect(await first.exited).toBe(130);
  expect(first.stderr).toMatch(
    /Stopped following at \d+ of \d+\. The batch goes on where a producer runs\. To come back: .* --attach batch_/,
  );
  expect(existsSync(out)).toBe(false);

  const second = await millrace([...args, '--json'], { env });
  expect([second.code, second.stderr]).toEqual([0, expect.stringContaining('which this command has begun before')]);
  expect(JSON.parse(second.stdout)).toMatchObject({
    end: 'finished',
    batch: 'in',
    total: count,
    finished: count,
    failed: 0,
  });
  const results = readResults(out);
  expect(results.map(({ line }) => line)).toEqual(numbered(count).map((_, index) => index + 1));
  expect(new Set(results.map(({ runId }) => runId)).size).toBe(count);
  expect(results.every(({ text, costMicrocents }) => text === 'one two three four five' && costMicrocents > 0)).toBe(
    true,
  );
  const views = await Promise.all(results.map(({ runId }) => fleet.mill.get(runId as string)));
  expect(views.filter(({ attempts }) => attempts.length !== 1)).toEqual([]);

  const third = await millrace([...args, '--json'], { env });
  expect(JSON.parse(third.stdout)).toMatchObject({
    id: (JSON.parse(second.stdout) as { id: string }).id,
    end: 'finished',
  });
  expect((await fleet.mill.batches.list()).data).toHaveLength(1);
}, 90_000);

async function doneOf(mill: Awaited<ReturnType<typeof batchWorld>>['fleet']['mill']): Promise<number> {
  const [batch] = (await mill.batches.list()).data;
  return batch?.request_counts.completed ?? 0;
}

test('a command that was killed goes on in a file whose bad line was corrected, and pays for no line twice', async () => {
  const count = rounds({ fast: 40, all: 150 });
  const lines: unknown[] = Array.from({ length: count }, (_, index) => ({
    custom_id: `q${index}`,
    input: `q ${index}`,
  }));
  lines[1] = { custom_id: 'q1' };
  const { fleet, file, out, env, args } = await batchWorld(lines);
  const first = new CliProcess([...args, '--window', '8'], { env });
  await until('a quarter of the lines', async () => (await doneOf(fleet.mill)) >= count / 4);
  first.signal('SIGKILL');
  await first.exited;
  expect(first.stderr).toContain(`${file}:2: validation: the line needs \`input\`, the text for the agent`);

  lines[1] = { custom_id: 'q1', input: 'q 1' };
  writeLines(file, [{ custom_id: 'added', input: 'added' }, ...lines]);
  const second = await millrace([...args, '--json'], { env });
  expect(second.stderr).not.toContain('validation');
  expect(JSON.parse(second.stdout)).toMatchObject({ end: 'finished', batch: 'in', total: count + 1, failed: 0 });
  const results = readResults(out);
  expect(results.map(({ line, id }) => [line, id])).toEqual([
    [1, 'added'],
    ...lines.map((_, index) => [index + 2, `q${index}`]),
  ]);
  const { runs } = await fleet.mill.list({ limit: 100 });
  const ours = new Set(results.map(({ runId }) => runId));
  expect(ours.size).toBe(count + 1);
  expect(runs.filter(({ runId, attempts }) => !ours.has(runId) || attempts.length !== 1)).toEqual([]);
}, 90_000);

test('a bad line is named with its number, the others run, and the exit code says that something failed', async () => {
  const { out, env, args } = await batchWorld(['fine', { colour: 'red' }, 'fine too']);
  const { code, stdout, stderr } = await millrace(args, { env });
  expect(stderr).toContain(
    'in.jsonl:2: validation: the line needs `input`, the text for the agent; colour: is not a known field',
  );
  expect(stderr).toContain('1 line of');
  expect(stderr).toContain('never became a run: correct them and give the same command again');
  expect(stdout).toContain('3 lines, 1 failed');
  expect(readResults(out)).toHaveLength(3);
  expect(code).toBe(1);
  const unknown = await millrace([...args, '--agent', 'sumarise'], { env });
  expect([unknown.code, unknown.stderr]).toEqual([
    2,
    expect.stringContaining('there is no agent sumarise; did you mean summarise?'),
  ]);
}, 60_000);

test('failed runs go on with --retry-failed, and the others do not run again', async () => {
  const { out, env, args } = await batchWorld(['fine', 'fail']);
  const first = await millrace(args, { env });
  expect([first.code, first.stderr]).toEqual([
    1,
    expect.stringContaining('1 line got no answer: the same command with --retry-failed'),
  ]);
  const [fine, failed] = readResults(out);
  expect(failed).toMatchObject({ status: 'failed', error: { code: 'content_filter' } });
  const second = await millrace([...args, '--retry-failed', '--json'], { env });
  expect(JSON.parse(second.stdout)).toMatchObject({ end: 'finished', total: 2, failed: 1 });
  const [again, retried] = readResults(out);
  expect(again).toEqual(fine);
  expect(retried?.runId).toBe(failed?.runId);
}, 60_000);

test('rows of a CSV run with a template, and their results are rows with what they said', async () => {
  const rows = ['id,city,"what, exactly"', '1,Bonn,"a ""box"""', '2,Ulm,"two\nlines"'];
  const { fleet, out, env, args } = await batchWorld(rows, { file: 'in.csv' });
  const { code, stderr } = await millrace([...args, '--template', '{{ city }}: {{ row["what, exactly"] }}'], { env });
  expect([code, stderr]).toEqual([0, expect.not.stringContaining('validation')]);
  const [header, ...results] = parse(readFileSync(out));
  expect(header).toEqual(['id', 'city', 'what, exactly', 'status', 'text', 'error', 'cost_usd', 'run_id']);
  expect(results.map((row) => row.slice(0, 6)).toSorted(([a = ''], [b = '']) => a.localeCompare(b))).toEqual([
    ['1', 'Bonn', 'a "box"', 'completed', 'one two three four five', ''],
    ['2', 'Ulm', 'two\nlines', 'completed', 'one two three four five', ''],
  ]);
  const inputs = await Promise.all(results.map(async (row) => (await fleet.mill.get(row.at(-1) ?? '')).agent));
  expect(inputs).toEqual(['summarise', 'summarise']);
}, 60_000);

test('a quote is printed and nothing more begins, until the batch is resumed or the same command says yes', async () => {
  const { fleet, out, env, args } = await batchWorld(numbered(12));
  const quoted = await millrace([...args, '--quote', '--sample', '4'], { env });
  expect([quoted.code, quoted.stdout]).toEqual([
    0,
    expect.stringMatching(/^4 of 12 lines ran as a sample\. All of them are likely to cost \$/),
  ]);
  expect(quoted.stderr).toMatch(/No further line was begun\. `.* batches resume batch_\w+` goes on/);
  expect(existsSync(out)).toBe(false);
  const [batch] = (await fleet.mill.batches.list()).data;
  expect(batch).toMatchObject({ status: 'quoted', request_counts: { completed: 4 }, quote: { lines: 12, sampled: 4 } });

  const tooDear = await millrace([...args, '--quote', '--yes', '--max-cost', '0.00000001'], { env });
  expect([tooDear.code, tooDear.stderr]).toEqual([1, expect.stringContaining('That is more than --max-cost')]);
  const wanted = await millrace([...args, '--quote', '--yes', '--max-cost', '5', '--json'], { env });
  expect(wanted.code).toBe(0);
  const { quote, costMicrocents, ...summary } = JSON.parse(wanted.stdout) as {
    quote: { costUsd: { low: number; high: number } };
    costMicrocents: number;
  };
  expect(summary).toMatchObject({ id: batch?.id, end: 'finished', total: 12, finished: 12 });
  expect(costMicrocents / 1e8).toBeGreaterThanOrEqual(quote.costUsd.low);
  expect(costMicrocents / 1e8).toBeLessThanOrEqual(quote.costUsd.high);
  expect(readResults(out)).toHaveLength(12);
}, 90_000);

test('a batch that was left is attached to by its id, by its output file, or as the newest, from any machine', async () => {
  const { out, env, args, folder } = await batchWorld(numbered(5));
  const left = await millrace([...args, '--detach'], { env });
  expect([left.code, left.stderr]).toEqual([0, expect.stringContaining('To come back: ')]);
  const id = left.stdout.trim();
  const byOutput = await millrace(['batch', '--attach', '-o', out, '--json'], { env });
  expect(JSON.parse(byOutput.stdout)).toMatchObject({ id, end: 'finished', finished: 5, output: out });
  expect(readResults(out)).toHaveLength(5);
  const elsewhere = join(folder, 'elsewhere.jsonl');
  const byId = await millrace(['batch', '--attach', id, '-o', elsewhere, '--json'], { env });
  expect(JSON.parse(byId.stdout)).toMatchObject({ id, end: 'finished' });
  expect(readFileSync(elsewhere, 'utf8')).toBe(readFileSync(out, 'utf8'));
  const newest = await millrace(['batch', '--attach', '--json'], { env });
  expect(JSON.parse(newest.stdout)).toMatchObject({ id, end: 'finished' });
}, 60_000);

test('too many failures pause a batch, and the same command goes on with it', async () => {
  const { env, args } = await batchWorld(Array.from({ length: 12 }, (_, index) => `fail ${index}`));
  const first = await millrace([...args, '--max-failures', '2', '--window', '2'], { env });
  expect([first.code, first.stderr]).toEqual([1, expect.stringContaining('The batch was paused after ')]);
  const second = await millrace([...args, '--max-failures', '2', '--window', '2', '--json'], { env });
  const failedOf = (text: string) => Number(/paused after (\d+)/.exec(text)?.[1] ?? 0);
  const more = JSON.parse(second.stdout) as { failed: number };
  expect(more.failed).toBeGreaterThan(failedOf(first.stderr));
}, 60_000);

test('another file for the same output is another batch: what was there moves aside, unless its lines would run once more', async () => {
  const { file, out, env, args } = await batchWorld(['one', 'two']);
  const first = await millrace([...args, '--max-cost', '1', '--json'], { env });
  const { id } = JSON.parse(first.stdout) as { id: string };
  const before = readFileSync(out, 'utf8');
  writeLines(file, ['one', 'two', 'three']);
  const second = await millrace([...args, '--max-cost', '1', '--json'], { env });
  expect([second.code, second.stderr]).toEqual([0, expect.stringContaining(`What ${out} had is in ${out}.${id} now.`)]);
  expect(second.stderr).not.toContain('--name begins another batch');
  expect(readFileSync(`${out}.${id}`, 'utf8')).toBe(before);
  expect(
    readResults(out)
      .slice(0, 2)
      .map(({ runId }) => runId),
  ).toEqual(readResults(`${out}.${id}`).map(({ runId }) => runId));
  const elsewhere = [...args.slice(0, -1), `${out}.jsonl`];
  writeLines(file, ['one', 'two', 'three', 'four']);
  const third = await millrace([...elsewhere, '--max-cost', '1'], { env });
  expect(third.stderr).toContain('Runs of the batch in have spent ');
  expect(third.stderr).toContain('of its budget before; --name begins another batch.');

  const note = JSON.parse(readFileSync(`${out}.batch`, 'utf8')) as object;
  writeFileSync(`${out}.batch`, JSON.stringify({ ...note, createdAt: Date.now() - 25 * 3_600_000 }));
  writeLines(file, ['one', 'two', 'three', 'four', 'five']);
  const late = await millrace(args, { env });
  expect([late.code, late.stderr]).toEqual([2, expect.stringContaining('its lines would run, and cost, once more')]);
}, 90_000);

test('--deadline holds for each run, and a line may have one of its own', async () => {
  const { fleet, out, env, args } = await batchWorld(['fine', { input: 'own', deadlineMs: 30_000 }]);
  const { code, stderr } = await millrace([...args, '--deadline', '60'], { env });
  expect([code, stderr]).toEqual([0, expect.not.stringContaining('validation')]);
  const allowed = readResults(out).map(async ({ line, runId }) => {
    const { createdAt, deadlineAt = '' } = await fleet.mill.get(runId as string);
    return [line, Date.parse(deadlineAt) - Date.parse(createdAt)] as const;
  });
  expect(await Promise.all(allowed)).toEqual([
    [1, 60_000],
    [2, 30_000],
  ]);
}, 60_000);

test.each([
  [['nowhere.jsonl', '-o', 'out.jsonl'], 'nowhere.jsonl cannot be read'],
  [['in.jsonl', '-o', 'in.jsonl'], 'is the file of the requests: choose another output file'],
  [
    ['in.jsonl', '-o', 'notes.txt'],
    'notes.txt has something in it that is no output of a batch: choose another output file',
  ],
  [['in.jsonl', '-o', 'nowhere/out.jsonl'], 'cannot be written to'],
  [['in.jsonl', '-o', 'out.csv'], 'in.jsonl is JSONL, and so are its results: name them'],
  [['in.csv', '-o', 'out.csv'], 'the header has no column input'],
  [
    ['in.csv', '-o', 'out.csv', '--template', '{{ txt }}'],
    'there is no column txt; did you mean text?; known are ticket, text',
  ],
  [['in.jsonl', '--name', 'a b'], 'the name of a batch must be'],
  [['--attach', 'in.jsonl'], 'in.jsonl is not the id of a batch'],
  [['--attach'], 'there is no batch to attach to'],
  [['--attach', '--agent', 'support'], 'leave out --agent'],
  [[], 'a batch needs a file of lines'],
  [['in.jsonl', '--yes'], '--yes needs --quote'],
  [['in.jsonl', '--sample', '3'], '--sample needs --quote'],
])('millrace batch %j is a usage error: %s', async (args, problem) => {
  const { prefix, mill } = await clientWorld();
  await mill.enqueue(request);
  const folder = scratchFolder();
  writeLines(join(folder, 'in.jsonl'), ['one']);
  writeFileSync(join(folder, 'in.csv'), 'ticket,text\n1,x\n');
  writeFileSync(join(folder, 'notes.txt'), 'mine\n');
  const inFolder = args.map((arg) =>
    /\.(jsonl|csv|txt)$/.test(arg) && !args.includes('--attach') ? join(folder, arg) : arg,
  );
  const { code, stderr } = await millrace(['batch', ...inFolder], { env: settings(prefix) });
  expect([code, stderr]).toEqual([2, expect.stringContaining(problem)]);
  expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toBe('mine\n');
});

test('a file without lines is done at once', async () => {
  const { prefix } = await clientWorld();
  const folder = scratchFolder();
  const file = join(folder, 'in.jsonl');
  writeFileSync(file, '\n');
  const out = join(folder, 'out.jsonl');
  const { code, stdout } = await millrace(['batch', file, '-o', out, '--json'], { env: settings(prefix) });
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { end: 'finished', total: 0 }]);
  expect(readFileSync(out, 'utf8')).toBe('');
});
