import { expect, test } from 'vitest';
import type { RunUsage } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { startRawProvider, type RawProvider, type RawRequest } from '../support/raw-provider.ts';
import { responses } from '../support/raw-responses.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';
import { scratchFile } from '../worker/llm/scratch-file.ts';

const runs = 8;
const lookTwice = 2;

/** A model that thinks in a way that no other provider may see, looks twice and answers. */
async function thinker(name: string, arrived: (steps: number) => Promise<void>): Promise<RawProvider> {
  return await startRawProvider(async (response, request) => {
    const steps = looksIn(request);
    await arrived(steps);
    const id = `${name}${steps}`;
    const reasoning = { summary: `${name} thinks aloud.`, encrypted: `${name}-thoughts` };
    const usage = { input_tokens: 100 + steps, output_tokens: 20 + steps, total_tokens: 120 + 2 * steps };
    const calls = [{ id, name: 'look', args: [JSON.stringify({ id })] }];
    const answer = steps < lookTwice ? { calls } : { text: [`Seen by ${name}.`] };
    await responses({ reasoning, usage, ...answer })(response, request);
  });
}

function looksIn({ body }: RawRequest): number {
  return body.input.filter(({ type }: { type?: string }) => type === 'function_call_output').length;
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
const costsIn = ({ byModel }: RunUsage) => sum(Object.values(byModel).map(({ costMicrocents }) => costMicrocents));

test('a provider that dies in the middle of eight runs: all finish on the other one, and every cent is counted', async () => {
  let held = 0;
  const a = await thinker('Alpha', async (steps) => {
    if (steps === 0) return;
    held++;
    await new Promise(() => {});
  });
  await using b = await thinker('Beta', async () => {});
  const file = scratchFile(
    'providers.yaml',
    `- { id: a, kind: openai-responses, baseUrl: "${a.url}", prices: [{ model: large, inputUsdPerMillion: 10, outputUsdPerMillion: 20 }] }
- { id: b, kind: openai-responses, baseUrl: "${b.url}", prices: [{ model: small, inputUsdPerMillion: 1, outputUsdPerMillion: 3 }] }
`,
  );
  const world = await makeWorld({
    workers: 2,
    producer: true,
    env: { MILLRACE_PROVIDERS: file, LOCK_DURATION_MS: '15000' },
  });
  const handles = await Promise.all(
    Array.from({ length: runs }, () => world.mill.enqueue({ agent: 'moving', input: 'Look twice.' })),
  );
  await until('every run asks for its second step', () => held === runs);
  await a[Symbol.asyncDispose]();

  const ended = await Promise.all(handles.map((run) => world.ended(run)));
  for (const observed of ended) {
    const { view } = observed;
    expect(view).toMatchObject({ status: 'completed', result: { text: 'Seen by Beta.' }, steps: 3, recoveries: 0 });
    expect(eventsOf(observed, 'agent.model.fellback')).toMatchObject([{ from: 'large', to: 'small', stepNumber: 2 }]);
    expect(Object.keys(view.usage?.byModel ?? {}).toSorted()).toEqual(['large', 'small']);
    expect(view.usage && costsIn(view.usage), `cost of run ${view.runId} by model`).toBe(view.costMicrocents);
    // One answer of A: 100 and 20 tokens; two of B: 101 and 21, 102 and 22.
    expect(view.costMicrocents).toBe(100 * 1_000 + 20 * 2_000 + 203 * 100 + 43 * 300);
    expect(view.attempts.filter(({ outcome }) => outcome === 'succeeded').map(({ provider }) => provider)).toEqual([
      'a',
      'b',
      'b',
    ]);
  }

  expect(b.requests).toHaveLength(2 * runs);
  const sent = (provider: RawProvider, looks: number) =>
    provider.requests.filter((request) => looksIn(request) === looks).map(({ body }) => JSON.stringify(body));
  // It does go back to the provider that said it.
  for (const request of sent(a, 1)) expect(request).toContain('Alpha-thoughts');
  for (const request of sent(b, 2)) expect(request).toContain('Beta-thoughts');
  for (const request of b.requests) expect(JSON.stringify(request.body)).not.toMatch(/Alpha(-thoughts| thinks)/);

  const total = sum(ended.map(({ view }) => view.costMicrocents));
  const { body: costs } = await call('GET', `${world.url}/v1/costs?by=model`);
  expect(costs.totals).toMatchObject({ costMicrocents: total, unpricedAttempts: 0 });
  for (const [provider, model] of [
    ['a', 'large'],
    ['b', 'small'],
  ] as const) {
    const paid = sum(ended.map(({ view }) => view.usage?.byModel[model]?.costMicrocents ?? 0));
    expect(costs.rows).toContainEqual(expect.objectContaining({ provider, model, costMicrocents: paid }));
  }
  const report = await world.mill.costs({ by: ['agent'] });
  expect(report.rows).toMatchObject([{ agent: 'moving', costMicrocents: total }]);
});
