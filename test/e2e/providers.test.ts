import { expect, onTestFinished, test } from 'vitest';
import { startAimock } from '../support/aimock.ts';
import type { ProviderReport } from '../../src/producer/index.ts';
import { millrace, settings } from '../producer/cli/support/cli-process.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { eventsOf } from '../support/check-run.ts';
import { tokensPerCall } from '../support/plan.ts';
import { makeWorld } from '../support/world.ts';
import { scratchFile } from '../worker/llm/scratch-file.ts';

test('the agents that run on one OpenAI-compatible server run on another one unchanged', async () => {
  const aimock = await startAimock();
  onTestFinished(() => aimock.stop());
  // Both servers follow the plan in the input, so only the wire between can make a difference.
  const world = await makeWorld({ workers: 0 });
  const seen = [];
  for (const baseUrl of [world.provider.baseUrl, aimock.baseUrl]) {
    const worker = await world.addWorker({ OPENAI_BASE_URL: baseUrl });
    const run = await world.submit('hands', [
      {
        text: 'I charge and look.',
        calls: [
          { name: 'charge', args: { id: 'x' } },
          { name: 'look', args: { id: 'y' } },
        ],
      },
      { calls: [{ name: 'look', args: { id: 'z' } }] },
      { text: 'All of it is done.' },
    ]);
    const observed = await world.ended(run);
    await worker.kill();
    seen.push({
      status: observed.view.status,
      text: observed.view.result?.text,
      usage: observed.view.usage,
      cost: observed.view.costMicrocents,
      steps: observed.view.steps,
      tools: observed.executions.map(({ tool, id }) => `${tool} ${id}`).sort(),
      results: eventsOf(observed, 'tool.execute.end')
        .map((event) => event.outputSummary)
        .sort(),
      finish: eventsOf(observed, 'step.end').map((event) => event.finishReason),
    });
  }
  expect(seen[0]).toEqual(seen[1]);
  expect(seen[0]).toMatchObject({
    status: 'completed',
    text: 'All of it is done.',
    tools: ['charge x', 'look y', 'look z'],
    usage: { input: 3 * tokensPerCall.input, output: 3 * tokensPerCall.output },
  });
});

test('workers report their providers to doctor and to the readiness of a producer', async () => {
  const world = await makeWorld({ producer: true });
  const reports = async () => ((await call('GET', `${world.url}/readyz`)).body.providers ?? []) as ProviderReport[];
  const [report] = await until('the provider answers', async () => {
    const found = await reports();
    return found[0]?.endpoint ? found : undefined;
  });
  const { host } = new URL(world.provider.baseUrl);
  expect(report).toMatchObject({ id: 'openai', kind: 'openai', host, endpoint: { state: 'answers', status: 200 } });
  await world.ended(await world.submit('hands', [{ text: 'Never.', faults: [{ kind: 'status', status: 401 }] }]));
  const failed = await until('the refusal is reported', async () => {
    const [found] = await reports();
    return found?.lastError ? found.lastError : undefined;
  });
  expect(failed).toMatchObject({ kind: 'auth', status: 401 });
  expect(failed).not.toHaveProperty('message');
  const doctor = await millrace(['doctor'], { env: settings(world.fleet.prefix, { REDIS_URL: world.fleet.redisUrl }) });
  expect(doctor.stdout).toMatch(/^FAIL {2}provider openai .* answers; last error .* auth 401 for /m);
});

test('an agent runs on a provider of kind openai-responses, as its entry in the providers file says', async () => {
  const aimock = await startAimock();
  onTestFinished(() => aimock.stop());
  const world = await makeWorld({ workers: 0 });
  // An entry of this id stands in for the default provider.
  const entry = `[{ id: openai, kind: openai-responses, baseUrl: "${aimock.baseUrl}", keyEnv: OPENAI_API_KEY }]`;
  await world.addWorker({ MILLRACE_PROVIDERS: scratchFile('providers.yaml', entry), OPENAI_API_KEY: 'k' });
  const observed = await world.ended(
    await world.submit('hands', [
      { calls: [{ name: 'charge', args: { id: 'x' } }] },
      { calls: [{ name: 'look', args: { id: 'y' } }] },
      { text: 'All of it is done.' },
    ]),
  );
  expect(observed.view).toMatchObject({
    status: 'completed',
    result: { text: 'All of it is done.' },
    steps: 3,
    usage: { input: 3 * tokensPerCall.input, output: 3 * tokensPerCall.output },
  });
  expect(observed.executions.map(({ tool, id }) => `${tool} ${id}`)).toEqual(['charge x', 'look y']);
  expect(world.provider.callsOf(observed.view.runId)).toHaveLength(0);
});
