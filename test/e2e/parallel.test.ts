import { expect, test } from 'vitest';
import { tokensPerCall } from '../support/plan.ts';
import { call } from '../support/http.ts';
import { makeWorld } from '../support/world.ts';

const runs = 30;

test('thirty runs on two workers add up exactly while metrics and health are scraped', async () => {
  const world = await makeWorld({
    workers: 2,
    producer: true,
    env: { WORKER_CONCURRENCY: '10', LOCK_DURATION_MS: '15000' },
  });
  const scraped = [
    `${world.url}/metrics`,
    `${world.url}/healthz`,
    ...world.workers.map(({ healthUrl }) => `${healthUrl}/metrics`),
  ];
  const scrapes: { url: string; status: number }[] = [];
  const done = new AbortController();
  const scraping = (async () => {
    while (!done.signal.aborted) {
      for (const url of scraped) {
        // A connection that was kept open may be closed as it is used again.
        const { status } = await call('GET', url).catch(async () => await call('GET', url));
        scrapes.push({ url, status });
      }
    }
  })();
  const handles = await Promise.all(
    Array.from({ length: runs }, (_, i) =>
      world.submit('hands', [
        {
          calls: [
            { name: 'charge', args: { id: `c${i}` } },
            { name: 'look', args: { id: `l${i}` } },
          ],
        },
        { text: `Run ${i} is done.`, paceMs: 5 },
      ]),
    ),
  );
  const ended = await Promise.all(handles.map((handle) => world.ended(handle)));
  done.abort();
  await scraping;

  expect(ended.map(({ view }) => view.result?.text)).toEqual(handles.map((_, i) => `Run ${i} is done.`));
  for (const { view } of ended) {
    expect(view.usage).toMatchObject({ input: 2 * tokensPerCall.input, output: 2 * tokensPerCall.output });
  }
  expect(new Set(ended.map(({ view }) => view.worker)).size).toBe(2);
  expect(world.provider.calls).toHaveLength(2 * runs);
  expect(scrapes.filter(({ status }) => status !== 200)).toEqual([]);
  expect(scrapes.length).toBeGreaterThan(scraped.length);

  const pages = await Promise.all(
    world.workers.map(async ({ healthUrl }) => String((await call('GET', `${healthUrl}/metrics`)).body)),
  );
  const total = (pattern: RegExp) =>
    pages.flatMap((page) => [...page.matchAll(pattern)]).reduce((sum, match) => sum + Number(match[1]), 0);
  expect(total(/^millrace_runs_total\{[^}]*status="completed"[^}]*\} (\d+)/gm)).toBe(runs);
  expect(total(/^millrace_llm_tokens_total\{[^}]*type="input"[^}]*\} (\d+)/gm)).toBe(2 * runs * tokensPerCall.input);
  expect(total(/^millrace_tool_calls_total\{[^}]*outcome="ok"[^}]*\} (\d+)/gm)).toBe(2 * runs);
  expect(total(/^millrace_llm_cost_microcents_total\{[^}]*\} (\d+)/gm)).toBe(
    ended.reduce((sum, { view }) => sum + view.costMicrocents, 0),
  );
  const { openRuns, stuckRuns } = await world.mill.diagnose();
  expect({ openRuns, stuckRuns }).toEqual({ openRuns: 0, stuckRuns: [] });
});
