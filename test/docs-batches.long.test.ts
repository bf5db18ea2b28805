import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'csv-parse/sync';
import { expect, onTestFinished, test } from 'vitest';
import { lineSource, readLines } from '../src/producer/batch/lines/read-lines.ts';
import type { LineSource } from '../src/producer/batch/lines/line.ts';
import { quoteText } from '../src/producer/cli/batch/show-batch.ts';
import { outputLine } from '../src/producer/batch/lines/output-line.ts';
import { clientWorld } from './producer/cli/options/client.ts';
import { readResults } from './producer/cli/support/batch-command.ts';
import { millrace, root, settings } from './producer/cli/support/cli-process.ts';
import { argumentsOf, docsPage, pageCommands, pageFolder } from './support/docs-page.ts';
import { Fleet } from './support/fleet.ts';
import { codeBlocks } from './support/markdown.ts';
import { openaiForPython } from './support/openai-python.ts';
import { withoutPython } from './support/python.ts';

const run = promisify(execFile);
const page = docsPage('batches.md');
const [lines = '', result = '', wireLine = ''] = codeBlocks(page, 'json');
const [tickets = ''] = codeBlocks(page, 'csv');

const about = {
  endpoint: '/v1/runs',
  filename: 'questions.jsonl',
  defaults: { agent: 'support' },
  inputTemplate: undefined,
  answerFields: [],
} as const;

async function readText(text: string, source: LineSource = lineSource(about, Buffer.from(text))) {
  async function* bytes() {
    yield Buffer.from(text);
  }
  return await Array.fromAsync(readLines(bytes(), source));
}

/** A worker of the sample agents whose model always says the same, and the files of the page. */
async function pageWorld({ inCheckout = false } = {}) {
  const folder = pageFolder({ inCheckout });
  writeFileSync(join(folder, 'script.yaml'), 'rules:\n  - answer: { text: It is on its way. }\n');
  writeFileSync(join(folder, 'questions.jsonl'), lines);
  writeFileSync(
    join(folder, 'letters.jsonl'),
    Array.from({ length: 30 }, (_, index) => `"letter ${index}"\n`).join(''),
  );
  writeFileSync(join(folder, 'tickets.csv'), tickets);
  const env = { MILLRACE_AGENTS: join(root, 'agents'), MILLRACE_SCRIPT: join(folder, 'script.yaml') };
  const fleet = new Fleet({ env });
  onTestFinished(() => fleet.dispose());
  await fleet.startWorker();
  return { folder, fleet };
}

test('the commands of the page about batches run its lines, and find the results of earlier ones', async () => {
  const { folder, fleet } = await pageWorld();
  const commands = pageCommands(page, 'millrace');
  expect(commands).toHaveLength(7);
  for (const command of commands) {
    const args = argumentsOf(command).map((arg) => (/\.(jsonl|csv)$/.test(arg) ? join(folder, arg) : arg));
    const { code, stderr } = await millrace(args, { env: settings(fleet.prefix) });
    expect([command, code, stderr]).toEqual([command, 0, expect.not.stringContaining('validation')]);
  }
  const first = readResults(join(folder, 'answers.jsonl'));
  expect(first.map(({ line }) => line)).toEqual([1, 2, 3, 4]);
  const named = readResults(join(folder, 'answers-2026-11-23.jsonl'));
  expect(new Set([...first, ...named].map(({ runId }) => runId)).size).toBe(8);
  expect(readResults(join(folder, 'summaries.jsonl'))).toHaveLength(30);
  const rows = parse(readFileSync(join(folder, 'tickets-out.csv')));
  expect(rows.map((row) => row.slice(0, 5))).toEqual([
    ['id', 'city', 'text', 'status', 'run_text'],
    ['1', 'Bonn', 'Where is it, please?', 'completed', 'It is on its way.'],
    ['2', 'Ulm', 'He said "no".\nWhy?', 'completed', 'It is on its way.'],
  ]);
}, 120_000);

test('the result, the message and the sentence of a quote on the page about batches are those of the code', async () => {
  const said = JSON.parse(result) as {
    line: number;
    id: string;
    executionId: string;
    runId: string;
    text: string;
    costMicrocents: number;
  };
  const { line, id, executionId, ...outcome } = said;
  const written = outputLine(
    { line, id, offset: 0, length: 0 },
    { kind: 'ended', executionId, outcome: { ...outcome, status: 'completed', steps: 1 } },
    lineSource(about, Buffer.from(lines)),
    '',
  );
  expect(JSON.parse(written)).toEqual(said);
  expect(executionId).toMatch(/^batch:questions:[0-9a-f]{8}:[0-9a-f]{20}$/);
  const [, , bad] = await readText(`"a"\n"b"\n{"id":"q"}\n`);
  const problem = bad?.kind === 'bad' ? bad.error.message : '';
  const [quote, message] = codeBlocks(page, 'text');
  expect(message).toBe(`questions.jsonl:3: validation: ${problem}\n`);
  const costUsd = { low: 1.2, high: 1.9 };
  expect(quote).toBe(`${quoteText({ lines: 2_000, sampled: 20, costUsd, seconds: { low: 370, high: 900 } })}\n`);
});

test('the lines on the page are lines of batches', async () => {
  expect((await readText(lines)).map(({ kind }) => kind)).toEqual(['request', 'request', 'request', 'request']);
  const wire = JSON.stringify(JSON.parse(wireLine));
  const source = lineSource({ ...about, endpoint: '/v1/responses' }, Buffer.from(wire));
  expect(await readText(wire, source)).toMatchObject([{ id: 'a', request: { agent: 'support' } }]);
});

test('the requests, the Python and the TypeScript of the page run its CSV over HTTP and beside Redis', async () => {
  const { folder, fleet } = await pageWorld({ inCheckout: true });
  const { url } = await fleet.startProducer();
  const expected = expect.stringMatching(/^2,Ulm,"He said ""no"".\nWhy\?",completed,It is on its way\./m) as string;
  const here = (code: string) => code.replaceAll('http://127.0.0.1:8080', url);

  const script = codeBlocks(page, 'sh').find((block) => block.startsWith('URL=')) ?? '';
  const overHttp = await run('sh', ['-ec', here(script)], { cwd: folder });
  expect(overHttp.stdout).toEqual(expected);

  writeFileSync(join(folder, 'batch.ts'), codeBlocks(page, 'ts')[0] ?? '');
  const env = { ...process.env, ...settings(fleet.prefix) };
  await run(process.execPath, ['--import', join(root, 'scripts/resolve-source.mjs'), 'batch.ts'], { cwd: folder, env });
  expect(readFileSync(join(folder, 'tickets-out.csv'), 'utf8')).toEqual(expected);

  if (withoutPython) return;
  writeFileSync(join(folder, 'batch.py'), here(codeBlocks(page, 'python')[0] ?? ''));
  const python = await run(openaiForPython(), ['batch.py'], { cwd: folder });
  expect(python.stdout).toContain('2 of 2');
  expect(python.stdout).toEqual(expected);
}, 300_000);

test('the command of each night on the page is one that there is', async () => {
  const { prefix } = await clientWorld();
  const nightly = codeBlocks(page, 'text').find((block) => block.includes('* * *')) ?? '';
  const command = /millrace .*(?= >> )/.exec(nightly)?.[0].replaceAll('$d', '2026-11-23') ?? '';
  const folder = pageFolder();
  writeFileSync(join(folder, 'tickets.jsonl'), '');
  const args = argumentsOf(command).map((arg) => (arg.endsWith('.jsonl') ? join(folder, arg) : arg));
  const { code, stdout } = await millrace(args, { env: settings(prefix) });
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { end: 'finished', batch: 'tickets-2026-11-23' }]);
});
