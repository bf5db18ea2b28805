import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { chat, startRawProvider, type RawRequest } from '../support/raw-provider.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

const runs = 20;
const secretThought = 'only alpha may ever see this thought';

/** A call of a tool in each of the first three steps, then an answer. */
function thinker(body: RawRequest['body'], reasoning?: string) {
  const answered = body.messages.filter(({ role }: { role: string }) => role === 'assistant').length;
  const usage = { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 };
  if (answered >= 3) return { text: 'All done.', usage };
  const proof = reasoning && {
    reasoning,
    reasoningDetails: [{ type: 'reasoning.text', text: reasoning, signature: 's' }],
  };
  return { toolCalls: [{ name: 'look', args: { id: String(answered) } }], usage, ...proof };
}

test('when a provider dies, its runs finish at the other one: one transition, no foreign reasoning, exact costs', async () => {
  const alpha = await startRawProvider(chat((body) => ({ ...thinker(body, secretThought), delayMs: 15 })));
  await using beta = await startRawProvider(chat((body) => thinker(body)));
  const file = join(mkdtempSync(join(tmpdir(), 'millrace-')), 'providers.yaml');
  const entry = (id: string, url: string, model: string, usd: number) =>
    `- { id: ${id}, kind: openai, baseUrl: '${url}', prices: [{ model: ${model}, inputUsdPerMillion: ${usd}, outputUsdPerMillion: ${usd} }] }\n`;
  writeFileSync(file, entry('alpha', alpha.url, 'thinker', 3) + entry('beta', beta.url, 'stand-in', 7));
  const world = await makeWorld({ workers: 2, env: { MILLRACE_PROVIDERS: file, LOCK_DURATION_MS: '15000' } });
  const { mill } = world;
  const handles = await Promise.all(
    Array.from({ length: runs }, () => mill.enqueue({ agent: 'two-homes', input: 'begin' })),
  );
  // Each run has begun, and some have come to a step that sends earlier reasoning back.
  const later = () => alpha.requests.some(({ body }) => body.messages.length > 3);
  await until('all runs are under way', () => later() && alpha.requests.length >= runs);
  await alpha[Symbol.asyncDispose]();

  const moved = [];
  for (const run of handles) {
    await run.result();
    const view = await mill.get(run.runId);
    expect(view).toMatchObject({ status: 'completed', result: { text: 'All done.' } });
    const byModel = Object.values(view.usage?.byModel ?? {});
    expect(byModel.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0)).toBe(view.costMicrocents);
    const events = [];
    for await (const event of run.events()) events.push(event);
    const transitions = eventsOf({ events }, 'agent.model.fellback');
    // A run that its worker lost half-way moves once more on the next one.
    const lost = eventsOf({ events }, 'run.recovered').length;
    if (view.usage?.byModel['stand-in'] && lost === 0) moved.push(transitions.length);
  }
  expect(moved.length, 'the death met runs half-way').toBeGreaterThan(0);
  expect(moved).toEqual(moved.map(() => 1));
  expect(JSON.stringify(alpha.requests.map(({ body }) => body))).toContain(secretThought);
  expect(JSON.stringify(beta.requests.map(({ body }) => body))).not.toContain(secretThought);

  const views = await Promise.all(handles.map(({ runId }) => mill.get(runId)));
  const total = views.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0);
  await expect.poll(async () => (await mill.costs({})).totals.costMicrocents).toBe(total);
});
