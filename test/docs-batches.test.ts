import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { batchNameOf, readBatch } from '../src/producer/batch/batch-file.ts';
import { batchResult } from '../src/producer/batch/batch-output.ts';
import { readResults } from './producer/batch/support.ts';
import { clientWorld } from './producer/cli/options/client.ts';
import { millrace, root, settings } from './producer/cli/support/cli-process.ts';
import { argumentsOf, docsPage, pageCommands, pageFolder } from './support/docs-page.ts';
import { Fleet } from './support/fleet.ts';
import { codeBlocks } from './support/markdown.ts';

const page = docsPage('batches.md');
const [lines = '', result = ''] = codeBlocks(page, 'json');

test('the commands of the page about batches run its lines, and find the results of earlier ones', async () => {
  const folder = pageFolder();
  writeFileSync(join(folder, 'script.yaml'), 'rules:\n  - answer: { text: It is on its way. }\n');
  writeFileSync(join(folder, 'questions.jsonl'), lines);
  const env = { MILLRACE_AGENTS: join(root, 'agents'), MILLRACE_SCRIPT: join(folder, 'script.yaml') };
  const fleet = new Fleet({ env });
  onTestFinished(() => fleet.dispose());
  await fleet.startWorker();
  const commands = pageCommands(page, 'millrace');
  expect(commands).toHaveLength(3);
  for (const command of commands) {
    const args = argumentsOf(command).map((arg) => (arg.endsWith('.jsonl') ? join(folder, arg) : arg));
    const { code, stderr } = await millrace(args, { env: settings(fleet.prefix) });
    expect([command, code, stderr]).toEqual([command, 0, expect.not.stringContaining('validation')]);
  }
  const first = readResults(join(folder, 'answers.jsonl'));
  expect(first.map(({ line }) => line).toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4]);
  const named = readResults(join(folder, 'answers-2026-11-23.jsonl'));
  expect(new Set([...first, ...named].map(({ runId }) => runId)).size).toBe(8);
});

test('the result and the message on the page about batches are those of the code', async () => {
  expect(batchResult.strict().parse(JSON.parse(result))).toMatchObject({ line: 2, id: 'q-2' });
  const file = join(pageFolder(), 'questions.jsonl');
  writeFileSync(file, `"a"\n"b"\n{"id":"q"}\n`);
  const read = await Array.fromAsync(readBatch({ file, name: batchNameOf(file), defaults: { agent: 'support' } }));
  const [, , bad] = read;
  const problem = bad?.kind === 'bad' ? bad.problem : '';
  expect(codeBlocks(page, 'text')[0]).toEqual(`questions.jsonl:3: validation: the line ${problem}\n`);
  const form = /^batch:questions:[0-9a-f]{8}:[0-9a-f]{20}$/;
  expect(bad?.executionId).toMatch(form);
  expect(batchResult.parse(JSON.parse(result)).executionId).toMatch(form);
});

test('the rows of the CSV file on the page become lines of a batch', async () => {
  const folder = pageFolder();
  writeFileSync(join(folder, 'tickets.csv'), 'ticket,text\n7,"Where is it, please?"\n8,"He said ""no"".\nWhy?"\n');
  const code = codeBlocks(page, 'sh').find((block) => block.startsWith('python3')) ?? '';
  const { status, stderr } = spawnSync('sh', ['-c', code], { cwd: folder, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  const file = join(folder, 'tickets.jsonl');
  const lines = await Array.fromAsync(readBatch({ file, name: 'tickets', defaults: { agent: 'support' } }));
  expect(lines).toMatchObject([
    { id: '7', request: { input: 'Where is it, please?' } },
    { id: '8', request: { input: 'He said "no".\nWhy?' } },
  ]);
});

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
