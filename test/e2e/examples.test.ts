import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { inject, onTestFinished, expect, test } from 'vitest';
import { startWorker } from '../../src/worker/index.ts';
import { scripted, createScriptedProvider } from '../../src/worker/llm/scripted.ts';
import { defineAgent } from '../../src/worker/run/define-agent.ts';

const root = join(import.meta.dirname, '../..');

async function run(example: string, env: Record<string, string> = {}): Promise<string> {
  const args = ['--import', './scripts/resolve-source.mjs', `examples/${example}.ts`];
  const { PATH = '', HOME = '' } = process.env;
  const options = { cwd: root, env: { PATH, HOME, ...env }, timeout: 30_000 };
  return (await promisify(execFile)(process.execPath, args, options)).stdout;
}

test('the in-process example calls its tool and ends with the cost', async () => {
  const output = await run('in-process');
  expect(output).toMatch(/\[lookup_order: .*shipped/);
  expect(output).toMatch(/completed in 2 steps for [1-9]\d* microcents/);
});

test('the client example follows a run on a worker to its end', async () => {
  const redis = inject('redisUrl');
  const support = defineAgent({ id: 'support', model: 'gpt-5.2-mini' });
  const provider = createScriptedProvider(scripted.text('It was delivered.'));
  // The example uses the default prefix, which no other test does.
  const worker = await startWorker({ redis, agents: [support], provider });
  onTestFinished(() => worker.stop(1_000));
  expect(await run('enqueue-and-follow', { REDIS_URL: redis })).toMatch(
    /It was delivered\.\ncompleted for [1-9]\d* microcents/,
  );
});
