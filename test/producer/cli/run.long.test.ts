import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import type { ErrorInfo } from '../../../src/shared/base/errors.ts';
import { until } from '../../support/redis.ts';
import { clientWorld, type ClientWorld } from './options/client.ts';
import { RunWriter } from '../support/run-writer.ts';
import { commands, CliCommand, CliProcess, millrace, settings, type CliOptions } from './support/cli-process.ts';

/** Starts `millrace run` and gives the hand that plays the worker. */
async function startRun(
  args: readonly string[],
  options: CliOptions = {},
  Command: typeof CliCommand | typeof CliProcess = CliCommand,
) {
  const world = await clientWorld();
  const cli = new Command(['run', ...args], { ...options, env: settings(world.prefix) });
  const runId = await onlyRun(world);
  return { ...world, cli, runId, writer: new RunWriter(world.redis, world.keys, runId) };
}

async function onlyRun({ mill }: ClientWorld): Promise<string> {
  return await until('the run to be accepted', async () => (await mill.list()).runs[0]?.runId);
}

test('text goes to stdout as it arrives, everything else to stderr', async () => {
  const { cli, writer, runId } = await startRun(['support', 'Where is order 7?']);
  await writer.emit([{ type: 'text.delta', delta: 'It is ', model: 'm' }]);
  await cli.says('It is ');
  await writer.emit([
    { type: 'text.delta', delta: 'sent.', model: 'm' },
    { type: 'tool.execute.start', toolCallId: 'c', toolName: 'lookup_order', args: { order: '7' }, summary: '' },
    {
      type: 'tool.execute.end',
      toolCallId: 'c',
      toolName: 'lookup_order',
      success: true,
      outputSummary: 'sent',
      durationMs: 12,
    },
  ]);
  await writer.end();
  expect(await cli.exited).toBe(0);
  expect(cli.stdout).toBe('It is sent.\n');
  expect(cli.stderr).toContain('→ lookup_order {"order":"7"}');
  expect(cli.stderr).toContain('← lookup_order sent (12 ms)');
  expect(cli.stderr).toContain(`completed · 5 tokens · $0.000007 · 5 ms · ${runId}`);
});

const waiting = {
  kind: 'approval',
  toolCallId: 'c',
  toolName: 'transfer',
  reason: 'over 100',
  requestedAt: '',
} as const;

test('the id of the run comes first, and what decides it where it waits', async () => {
  const { cli, writer, runId } = await startRun(['support', 'Pay them.']);
  await writer.emit([{ type: 'run.suspended', reason: 'approval', pending: [waiting] }]);
  await cli.says('cancel');
  expect(cli.stderr.split('\n')[0]).toBe(`run ${runId}`);
  const [, hints = ''] = cli.stderr.split('waits for approval of transfer (c): over 100\n');
  const commands = hints.split('\n').map((line) => line.trim().split(/ {2,}/)[0]);
  expect(commands.slice(0, 4)).toEqual(
    ['approve', 'deny', 'get', 'cancel'].map((name) => `node bin/millrace.mjs ${name} ${runId}`),
  );
  await writer.emit([
    { type: 'run.resumed', directiveSummary: 'c approved' },
    { type: 'run.started', kind: 'agent.turn', attempt: 2, resumed: true },
    { type: 'run.recovered', fromCheckpoint: 1, previousWorker: 'w-1' },
  ]);
  await writer.end();
  await cli.exited;
  expect(cli.stderr).toContain('continues: c approved\nanother worker continues it: w-1 was lost, or handed it over\n');
});

test('a run that asks a question shows how to answer it', async () => {
  const { cli, writer, runId } = await startRun(['support', 'Paint it.']);
  const asked = { kind: 'user_input', toolCallId: 'q 1', reason: 'Which colour?', requestedAt: '' } as const;
  await writer.emit([{ type: 'run.suspended', reason: 'user_input', pending: [asked] }]);
  await cli.says(`approve ${runId} 'q 1' --answer 'TEXT'`);
  await writer.end();
  expect(await cli.exited).toBe(0);
});

test('a denied call is not shown as one that was made', async () => {
  const { cli, writer } = await startRun(['support', 'Pay them.']);
  const about = { toolCallId: 'c', toolName: 'transfer' };
  const error = { kind: 'approval_denied', message: 'it was not approved: too dear', hint: 'report_to_user' } as const;
  const unknown = { ...error, kind: 'unknown_tool', message: 'there is no such tool' } as const;
  await writer.emit([
    { type: 'tool.execute.start', ...about, args: {}, summary: '' },
    { type: 'tool.approval.denied', ...about, by: 'kim', reason: 'too dear' },
    { type: 'tool.execute.error', ...about, success: false, error, durationMs: 0 },
    { type: 'tool.execute.start', toolCallId: 'd', toolName: 'send', args: {}, summary: '' },
    { type: 'tool.execute.error', toolCallId: 'd', toolName: 'send', success: false, error: unknown, durationMs: 0 },
    { type: 'tool.execute.start', toolCallId: 'e', toolName: 'look', args: {}, summary: '' },
  ]);
  await cli.says('→ look {}');
  await writer.end();
  await cli.exited;
  expect(cli.stderr.split('\n').filter((line) => /transfer|send/.test(line))).toEqual([
    '✗ transfer is not called: denied by kim: too dear',
    '✗ send is not called: unknown_tool: there is no such tool',
  ]);
});

test('the text of a step that begins anew is marked as discarded', async () => {
  const { cli, writer } = await startRun(['support', 'hello']);
  await writer.emit([
    { type: 'step.start', stepNumber: 1, model: 'm', modelSource: 'agent' },
    { type: 'text.delta', delta: 'It is in', model: 'm' },
    { type: 'step.reset', stepNumber: 1, reason: 'the stream broke off' },
    { type: 'text.delta', delta: 'It is sent.', model: 'm' },
  ]);
  await writer.end();
  expect(await cli.exited).toBe(0);
  expect(cli.stdout).toBe('It is in\n[the text above is discarded: the stream broke off]\nIt is sent.\n');
});

test('the answer is printed even when no text was streamed', async () => {
  const { cli, writer } = await startRun(['support', 'hello']);
  await writer.end();
  await cli.exited;
  expect(cli.stdout).toBe('It is on its way.\n');
});

test('a run that fails exits 1 and says why', async () => {
  const { cli, writer } = await startRun(['support', 'hello']);
  await writer.end('failed');
  expect(await cli.exited).toBe(1);
  expect(cli.stderr).toContain('failed: provider_unavailable: the provider is away');
});

test('--json prints one event a line and nothing else on stdout', async () => {
  const { cli, writer } = await startRun(['support', 'hello', '--json']);
  await writer.text(2);
  await writer.end();
  await cli.exited;
  const types = cli.stdout
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as RunEvent).type);
  expect(types).toEqual(['run.queued', 'text.delta', 'text.delta', 'run.completed']);
  expect(cli.stderr).toBe('no live worker serves queue runs: the run waits until one does\n');
});

test('--detach prints the run id and does not wait', async () => {
  const { cli, runId } = await startRun(['support', 'hello', '--detach']);
  expect(await cli.exited).toBe(0);
  expect(cli.stdout).toBe(`${runId}\n`);
});

test.skipIf(commands.speakHttp)('Ctrl-C lets go of the run, which goes on', async () => {
  const { cli, mill, writer, runId } = await startRun(['support', 'hello'], {}, CliProcess);
  await writer.text(1);
  await until('its text is shown', () => cli.stdout.includes('0'));
  cli.signal('SIGINT');
  expect(await cli.exited).toBe(130);
  expect(cli.stderr).toContain(` tail ${runId} --after 2`);
  expect((await mill.get(runId)).cancelling).toBe(false);
});

test('--timeout ends the wait and not the run', async () => {
  const { cli, mill, runId } = await startRun(['support', 'hello', '--timeout', '0.5']);
  expect(await cli.exited).toBe(1);
  expect(cli.stderr).toContain('not waiting any longer');
  expect((await mill.get(runId)).status).toBe('queued');
});

test('a run that no worker takes gets the advice to start one', async () => {
  const { cli } = await startRun(['support', 'hello']);
  await cli.says('No worker is running');
  expect(cli.stderr).toContain('millrace worker');
});

test('the input comes from stdin for `-` and where none is given', async () => {
  for (const args of [['support', '-'], ['support']]) {
    const { redis, keys, runId } = await startRun([...args, '--detach'], { input: 'Where is order 9?' });
    const stored = JSON.parse((await redis.hget(keys.run(runId), 'request')) ?? '{}') as { input: string };
    expect(stored.input).toBe('Where is order 9?');
  }
});

test.each([
  ['nothing', ['run', 'support'], '', 'millrace run support "your question"'],
  ['an empty stdin', ['run', 'support', '-'], ' \n', 'millrace run support "your question"'],
  ['an empty text', ['run', 'support', ''], 'x', 'millrace run support "your question"'],
  ['nothing for several', ['fan-out', 'support'], '', '--input'],
  ['nothing to evaluate', ['evaluate', 'support', '--judge', 'editor'], '', '--input'],
])('a run that gets %s is a usage error that says how to give an input', async (_, args, input, how) => {
  const { prefix, mill } = await clientWorld();
  const { code, stdout, stderr } = await millrace(args, { env: settings(prefix), input });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain('there is no input');
  expect(stderr).toContain(how);
  expect((await mill.list()).runs).toEqual([]);
});

test('a command that waits for a silent stdin says so, and goes on when the input comes', async () => {
  const { prefix, redis, keys } = await clientWorld();
  const cli = new CliCommand(['run', 'support', '--detach'], { env: settings(prefix), keepsInput: true });
  await cli.says('Reading the input from stdin');
  cli.type('Where is order 9?');
  cli.endInput();
  expect(await cli.exited).toBe(0);
  expect(await redis.hget(keys.run(cli.stdout.trim()), 'request')).toContain('Where is order 9?');
});

test('Ctrl-C ends a command that waits for its input', async () => {
  const { prefix } = await clientWorld();
  const cli = new CliCommand(['run', 'support', '--detach'], { env: settings(prefix), keepsInput: true });
  await cli.says('Reading the input from stdin');
  cli.signal('SIGINT');
  expect(await cli.exited).toBe(130);
});

test.skipIf(commands.speakHttp)('every option reaches the request', async () => {
  const { cli, redis, keys, runId } = await startRun([
    'support',
    'hello',
    '--detach',
    '--thread',
    't-1',
    '--execution-id',
    'e-1',
    '--model',
    'gpt-5.2-nano',
    '--task',
    'monday',
    '--max-cost',
    '0.05',
    '--max-steps',
    '3',
    '--max-model-calls',
    '4',
    '--deadline',
    '0.5001',
    '--metadata',
    'shop=north',
    '--metadata',
    'rank=a=b',
  ]);
  expect(await cli.exited).toBe(0);
  expect(JSON.parse((await redis.hget(keys.run(runId), 'request')) ?? '{}')).toMatchObject({
    agent: 'support',
    input: 'hello',
    thread: 't-1',
    executionId: 'e-1',
    overrides: { model: 'gpt-5.2-nano' },
    task: 'monday',
    budget: { maxCostUsd: 0.05 },
    limits: { maxSteps: 3, maxLlmCalls: 4 },
    deadlineMs: 501,
    metadata: { shop: 'north', rank: 'a=b' },
  });
});

test.each([
  ['run', 'support', 'hello'],
  ['fan-out', 'support', '--input', 'hello'],
  ['evaluate', 'support', '--judge', 'editor', '--input', 'hello'],
  ['task', 'tidy-up'],
])('the options of `%s` that every start has reach the request, and so do warnings the caller', async (...args) => {
  const { mill, redis, keys, prefix } = await clientWorld();
  const options = ['--deadline', '90', '--execution-id', 'e-3', '--max-cost', '0.05', '--metadata', 'shop=north'];
  const { code, stdout, stderr } = await millrace([...args, ...options, '--detach', '--json'], {
    env: settings(prefix),
  });
  expect(stderr).toBe('no live worker serves queue runs: the run waits until one does\n');
  expect(code).toBe(0);
  const [run] = (await mill.list()).runs;
  expect(JSON.parse(stdout)).toMatchObject({ runId: run?.runId, attached: false, warnings: [stderr.trim()] });
  expect(JSON.parse((await redis.hget(keys.run(run?.runId ?? ''), 'request')) ?? '{}')).toMatchObject({
    deadlineMs: 90_000,
    executionId: 'e-3',
    budget: { maxCostUsd: 0.05 },
    metadata: { shop: 'north' },
  });
});

test('the same execution id attaches to the same run', async () => {
  const { cli, prefix, runId } = await startRun(['support', 'hello', '--detach', '--execution-id', 'e-2']);
  await cli.exited;
  const again = await millrace(['run', 'support', 'hello', '--detach', '--json', '--execution-id', 'e-2'], {
    env: settings(prefix),
  });
  expect(JSON.parse(again.stdout)).toMatchObject({ runId, attached: true });
  const other = await millrace(['run', 'support', 'other', '--detach', '--execution-id', 'e-2'], {
    env: settings(prefix),
  });
  expect(other.stderr).toContain('idempotency_conflict' satisfies ErrorInfo['code']);
  expect(other.code).toBe(2);
});

test('files on the disk are uploaded and go along with the input, a picture behind a URL as what it is', async () => {
  const png = join(import.meta.dirname, '../../fixtures/input/mill.png');
  const files = ['--file', png, '--file', 'https://example.com/a/mill.png?x=1'];
  const { mill, runId } = await startRun(['support', 'What is it?', '--detach', ...files]);
  const { files: taken } = await mill.get(runId);
  expect(taken).toMatchObject([
    { kind: 'image', name: 'mill.png', mediaType: 'image/png', width: 48, source: { from: 'file' }, at: 11 },
    { kind: 'image', name: 'mill.png', source: { from: 'url' }, at: 11 },
  ]);
});

test('a file that is not there is named before any other is uploaded', async () => {
  const { mill, prefix } = await clientWorld();
  const png = join(import.meta.dirname, '../../fixtures/input/mill.png');
  const args = ['run', 'support', 'What?', '--file', png, '--file', '/nowhere/x.pdf'];
  const { code, stderr } = await millrace(args, { env: settings(prefix) });
  expect([code, stderr]).toEqual([2, expect.stringContaining('--file: /nowhere/x.pdf cannot be read (ENOENT)')]);
  expect((await mill.files.list()).data).toEqual([]);
});
