import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runExport } from '../../src/shared/contract/archive/run-export.ts';
import { agentFrom, assertNoDepartures, replayExport } from '../../src/testing/index.ts';
import { CliProcess, millrace, millraceProcess, root } from '../producer/cli/support/cli-process.ts';
import { freePort } from '../support/scratch-redis.ts';
import { until } from '../support/redis.ts';

test('what a worker did and the command exported replays offline, and departs once the prompt makes the agent call another tool', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'millrace-replay-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true, maxRetries: 5 }));
  cpSync(join(root, 'agents'), join(cwd, 'agents'), { recursive: true });
  // Its record goes a second after the end: what is exported then comes from the archive.
  const env = { PORT: String(await freePort()), WORKER_PORT: '0', RESULT_TTL_S: '1', EVENT_LOG_TTL_S: '1' };
  const dev = new CliProcess(['dev'], { cwd, ownGroup: true, env });
  await dev.says('"msg":"worker is ready"', 60_000);
  const started = await millrace(['run', 'support', 'Where is order 7?', '--json'], { cwd });
  const { runId } = JSON.parse(started.stdout.split('\n')[0] ?? '') as { runId: string };
  const steps = async () =>
    JSON.parse((await millrace(['get', runId, '--steps', '--json'], { cwd })).stdout) as { source?: string };
  await until('the archive has it', async () => (await steps()).source === 'archive');
  const file = join(cwd, 'order-7.export.json');
  expect(await millrace(['export', runId, '-o', file], { cwd })).toMatchObject({ code: 0 });
  dev.signal('SIGINT');
  expect(await dev.exited).toBe(0);

  const exported = runExport.parse(JSON.parse(readFileSync(file, 'utf8')));
  expect(exported.run.runId).toBe(runId);
  const replay = async () => await millraceProcess(['replay', file, '--agent', 'agents/support.yaml'], { cwd });
  expect(await replay()).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('and the recorded answers: the same'),
  });

  // A model that does what its prompt says.
  const obedient = async () =>
    await replayExport(file, await agentFrom(join(cwd, 'agents'), 'support'), {
      model: ({ messages }) => {
        if (messages.at(-1)?.role === 'tool') return { text: exported.run.result?.text ?? '' };
        const asks = JSON.stringify(messages).includes('Ask before you look');
        return asks
          ? { toolCalls: [{ name: 'ask_user', args: { question: 'Which order?' } }] }
          : { toolCalls: [{ name: 'lookup_order', args: { order: '7' } }] };
      },
    });
  assertNoDepartures(await obedient());

  const path = join(cwd, 'agents/support.yaml');
  const before = readFileSync(path, 'utf8');
  writeFileSync(
    path,
    before
      .replace('Look an order up before you say anything about it.', 'Ask before you look anything up.')
      .replace('[lookup_order]', '[lookup_order, ask_user]'),
  );
  const changed = await replay();
  expect(changed).toMatchObject({ code: 1, stdout: expect.stringContaining('system: ') });
  const departed = await obedient();
  expect(() => assertNoDepartures(departed)).toThrow(/would go another way/);
  expect(departed.departures).toContainEqual(expect.objectContaining({ kind: 'call', stepNumber: 1 }));
}, 180_000);
