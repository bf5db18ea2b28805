import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { inject, onTestFinished, expect, test } from 'vitest';
import { Millrace } from '../../src/producer/index.ts';
import { startWorker } from '../../src/worker/index.ts';
import { scriptedModel } from '../../src/testing/scripted-model.ts';
import { always } from '../../src/testing/scripts.ts';
import { defineAgent } from '../../src/worker/agents/define-agent.ts';
import { childEnv } from '../support/child-env.ts';
import { builtEntry } from '../support/entries.ts';
import { testPrefix } from '../support/redis.ts';
import { body, chat, startRawProvider } from '../support/raw-provider.ts';

const root = join(import.meta.dirname, '../..');

async function run(
  example: string,
  env: Record<string, string> = {},
  given: readonly string[] = [],
  hook = resolveBuilt(),
): Promise<string> {
  const args = ['--import', hook, `examples/${example}.ts`, ...given];
  const { HOME = '' } = process.env;
  const options = { cwd: root, env: childEnv({ HOME, ...env }), timeout: 90_000 };
  return (await promisify(execFile)(process.execPath, args, options)).stdout;
}

/** Does for the bundled source what `scripts/resolve-source.mjs` does for the source: `millrace` is this checkout. */
function resolveBuilt(): string {
  const at = (name: string) => pathToFileURL(builtEntry(join(root, 'src', name))).href;
  const own = { millrace: at('producer/index.ts'), 'millrace/worker': at('worker/index.ts') };
  const hook = `import { registerHooks } from 'node:module';
    const own = ${JSON.stringify(own)};
    registerHooks({ resolve: (name, context, next) => (own[name] ? { url: own[name], shortCircuit: true } : next(name, context)) });`;
  return `data:text/javascript,${encodeURIComponent(hook)}`;
}

test('the in-process example calls its tool and ends with the cost', async () => {
  const output = await run('in-process', {}, [], './scripts/resolve-source.mjs');
  expect(output).toMatch(/\[lookup_order: .*shipped/);
  expect(output).toMatch(/completed in 2 steps for [1-9]\d* microcents/);
});

test('the example of a long conversation is compacted more than once, and comes to its end', async () => {
  const output = await run('long-conversation');
  expect(output.match(/^compacted from \d+ to \d+ tokens$/gm)?.length).toBeGreaterThan(1);
  expect(output).toMatch(/completed: The whole report is about tides; I still see \d+ messages\./);
});

test('the task example tidies up, asks once, and goes on with the answer', async () => {
  const output = await run('basic-task');
  expect(output).toMatch(/task\.questions\n\nWhat becomes of the letter without a sender\? keep it\n\ntask\.start/);
  expect(output).toContain('step 4: letter without a sender: archive');
  expect(output).toMatch(/^completed with a score of 1: nothing is left$/m);
});

test('the example with a streaming backend shows the words of its server and what they cost', async () => {
  await using server = await startRawProvider(chat(() => ({ text: 'Because of the moon.' })));
  const output = await run('streaming-backend', { OPENAI_BASE_URL: server.url, OPENAI_API_KEY: 'sk-test' }, ['llama']);
  expect(output).toMatch(/^Because of the moon\.\n\[llama: \d+ tokens\]\ncompleted with 20 characters$/m);
  expect(server.requests[0]?.body).toMatchObject({ model: 'llama', stream: true });
});

test('the ledger example keeps one row for the run and one for the task, with what their events cost', async () => {
  const output = await run('run-ledger');
  expect(output).toMatch(/^run-1: completed, 1 calls, \d+ \+ \d+ tokens, [1-9]\d* microcents$/m);
  expect(output).toMatch(/^three-texts: completed, 3 calls, \d+ \+ \d+ tokens, [1-9]\d* microcents$/m);
  expect(output.match(/microcents$/gm)).toHaveLength(2);
  expect(output).toContain('the row has what the task cost');
});

test('the model example takes the first wish, believes the catalogue, and refuses what it does not list', async () => {
  expect(await run('model-resolution')).toMatch(/^gpt-5\.2-mini, from fallback\ncompleted: /);
  expect(await run('model-resolution', { WORKSPACE_MODEL: 'gpt-5.2' })).toContain('gpt-5.2, from workspace');
  await using router = await startRawProvider(body('application/json', '{"data":[{"id":"house-model"}]}'), {
    catalogue: true,
  });
  const listed = await run('model-resolution', { ROUTER_URL: router.url }, ['house-model']);
  expect(listed).toMatch(/^house-model, from request\ncompleted: /);
  expect(router.requests.map(({ path }) => path)).toEqual(['/v1/models']);
  await expect(run('model-resolution', { ROUTER_URL: router.url }, ['absent'])).rejects.toMatchObject({
    stdout: expect.stringContaining('refused, not_listed'),
  });
});

test('the manifest example measures two people offline', async () => {
  expect(await run('manifest')).toMatch(
    /^Ann: 1\.00 \(right 1, short 1\) after \d+ events\nBen: 0\.20 \(right 0, short 1\) after \d+ events$/m,
  );
});

test('the example of a fan-out over the queue asks three agents on a worker that runs one at a time', async () => {
  const output = await run('fan-out-queue', { REDIS_URL: inject('redisUrl') });
  expect(output).toMatch(/^merged: completed, completed, completed$/m);
  expect(output).toMatch(/^optimist: .+\npessimist: .+\nrealist: .+\ncompleted for [1-9]\d* microcents$/m);
});

test('the workflow example hands the output of its first node to the second', async () => {
  const output = await run('workflow');
  expect(output).toContain('draft: [answer to: Write it: [answer to: Plan a text about tides.]]');
  expect(output).toContain('draft took 10 + 5 tokens');
});

test('the client example follows a run on a worker to its end', async () => {
  const redis = inject('redisUrl');
  const support = defineAgent({ id: 'support', model: 'gpt-5.2-mini' });
  const provider = scriptedModel(always('It was delivered.'));
  // The example uses the default prefix, which no other test does.
  const worker = await startWorker({ redis, agents: [support], provider });
  onTestFinished(() => worker.stop(1_000));
  expect(await run('enqueue-and-follow', { REDIS_URL: redis })).toMatch(
    /It was delivered\.\ncompleted for [1-9]\d* microcents/,
  );
});

test('the consumer of lifecycle events sees every end once, also those from before it began', async () => {
  const [redis, prefix] = [inject('redisUrl'), testPrefix()];
  const provider = scriptedModel(always('Done.'));
  const worker = await startWorker({ redis, prefix, agents: [defineAgent({ id: 'support', model: 'm' })], provider });
  onTestFinished(() => worker.stop(1_000));
  await using mill = new Millrace({ redis, prefix });
  const env = { REDIS_URL: redis, MILLRACE_PREFIX: prefix };
  const endOne = async () => {
    const started = await mill.enqueue({ agent: 'support', input: 'x' });
    await started.result();
    return started.runId;
  };
  const before = [await endOne(), await endOne()];
  expect(await run('lifecycle-consumer', env, ['2'])).toBe(before.map((id) => `${id} run.completed\n`).join(''));
  const later = await endOne();
  expect(await run('lifecycle-consumer', env, ['1'])).toBe(`${later} run.completed\n`);
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
  expect(output).toContain('Write to [address] that order 7 was sent.');
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

test('the chat handler streams a turn, stores it changed, and streams it again without a second answer', async () => {
  const output = await run('chat-handler', { REDIS_URL: inject('redisUrl') });
  expect(output.split('\n')).toEqual([
    'Order 1042 is on its way.',
    'Order 1042 is on its way.',
    'replayed: true, completed: 1, stored: Order [number] is on its way.',
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

test('the runner example goes on in a conversation whose agent asks another one', async () => {
  const output = await run('runner');
  expect(output.match(/^\[search has answered in customer-42\.search\]$/gm)).toHaveLength(2);
  expect(output).toContain('[run_agent({"agent":"search","message":"7"})]');
  expect(output.match(/^(user|assistant): /gm)).toEqual(['user: ', 'assistant: ', 'user: ', 'assistant: ']);
  expect(output).toContain('some tokens were used');
});

test('the thread example goes on with a conversation, and interrupts an answer', async () => {
  const output = await run('threads', { REDIS_URL: inject('redisUrl') });
  expect(output.split('\n').filter((line) => !line.startsWith('assistant> There'))).toEqual([
    'first: I see 1 messages.',
    'second: cancelled',
    'third: I see 5 messages.',
    'user> Where are we?',
    'assistant> I see 1 messages.',
    'user> I want to know everything.',
    'assistant> (stopped by user)',
    'user> In short?',
    'assistant> I see 5 messages.',
    '',
  ]);
});

test('the example of agents together asks one, hands over to another, and knows what both cost', async () => {
  const output = await run('agents-together');
  expect(output).toMatch(
    /^\[billing has answered\]\nBilling says: .*Invoice 7 is paid\..*\n660 tokens of \S+ and \S+, [1-9]/m,
  );
  expect(output).toMatch(/^\[reception hands over to shipping\]\nHere is shipping: it arrives tomorrow\.\n440 tokens/m);
});
