import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { inject, onTestFinished, expect, test } from 'vitest';
import { startWorker } from '../../src/worker/index.ts';
import { scripted, createScriptedProvider } from '../../src/worker/llm/scripted.ts';
import { defineAgent } from '../../src/worker/run/define-agent.ts';

const root = join(import.meta.dirname, '../..');

async function run(example: string, env: Record<string, string> = {}, given: readonly string[] = []): Promise<string> {
  const args = ['--import', './scripts/resolve-source.mjs', `examples/${example}.ts`, ...given];
  const { PATH = '', HOME = '' } = process.env;
  const options = { cwd: root, env: { PATH, HOME, ...env }, timeout: 30_000 };
  return (await promisify(execFile)(process.execPath, args, options)).stdout;
}

test('the in-process example calls its tool and ends with the cost', async () => {
  const output = await run('in-process');
  expect(output).toMatch(/\[lookup_order: .*shipped/);
  expect(output).toMatch(/completed in 2 steps for [1-9]\d* microcents/);
});

test('the example of a long conversation is compacted more than once, and comes to its end', async () => {
  const output = await run('long-conversation');
  expect(output.match(/^compacted from \d+ to \d+ tokens$/gm)?.length).toBeGreaterThan(1);
  expect(output).toMatch(/completed: The whole report is about tides; I still see \d+ messages\./);
});

test('the workflow example hands the output of its first node to the second', async () => {
  const output = await run('workflow');
  expect(output).toContain('draft: [answer to: Write it: [answer to: Plan a text about tides.]]');
  expect(output).toContain('draft took 10 + 5 tokens');
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

test('the budget example runs a batch into its cap, and to its end after a top-up', async () => {
  const output = await run('budget', { REDIS_URL: inject('redisUrl') });
  expect(output).toMatch(/^\$0\.001939 of \$0\.0022 spent, 5 of 8 runs wait for money$/m);
  expect(output).toContain('the cap is $0.0122 now');
  expect(output).toMatch(/^8 of 8 runs answered for \$0\.005170$/m);
});

test('the example with a provider of its own masks what leaves, logs the call, and refuses other models', async () => {
  const output = await run('own-provider');
  expect(output).toContain('model parrot-small, from fallback');
  expect(output).toContain('Tell [address] that order 7 was sent.');
  expect(output).toContain('[parrot-small answered with 7 tokens]');
  expect(await run('own-provider', {}, ['parrot-large'])).toContain('model parrot-large, from request');
  await expect(run('own-provider', {}, ['gpt-5.2'])).rejects.toThrow('not_listed');
});

test('the approvals example pays what was approved, not what was asked for', async () => {
  const output = await run('approvals', { REDIS_URL: inject('redisUrl') });
  expect(output).toContain('refund waits for a person, with {"order":"7","amount":420}');
  expect(output).toMatch(/^the tool pays 42 for order 7, with the key \S+:s1:t0$/m);
  expect(output).toContain('granted by kim');
  expect(output).toContain('The refund is done: {"paid":42}');
});

test('the chat handler streams a turn, stores it changed, and tells it again without a second answer', async () => {
  const output = await run('chat-handler', { REDIS_URL: inject('redisUrl') });
  expect(output.split('\n')).toEqual([
    'Order 1042 is on its way.',
    'Order 1042 is on its way.',
    'told again: true, completed: 1, stored: Order [number] is on its way.',
    '',
  ]);
});

test('the fan-out example asks three agents and joins what they say in their order', async () => {
  const output = await run('fan-out');
  expect(output).toMatch(/history\?.*\n.*law\?.*\n.*money\?/);
  expect(output).toMatch(/^agent\.fanout\.spawned\nagent\.fanout\.merged$/m);
  expect(output.match(/^\w+: completed with [1-9]\d* tokens$/gm)).toHaveLength(3);
});

test('the evaluator-optimizer example passes with its second answer', async () => {
  const output = await run('evaluator-optimizer');
  expect(output).toContain('{"type":"agent.evaluator.iteration","iteration":1,"passed":false}');
  expect(output).toMatch(/^pass after 2 answers and [1-9]\d* tokens: .*Explain tides\. Name the moon\./m);
});

test('the reviewer example reads an answer in pieces while it is written', async () => {
  const output = await run('reviewer');
  expect(output.match(/^piece \d+: /gm)?.length).toBeGreaterThan(1);
  expect(output).toMatch(/^review: You said: .*Harbours are old\./m);
  expect(output).toContain('the writer has completed');
});
