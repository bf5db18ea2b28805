import { expect, test } from 'vitest';
import type { EventBody } from '../../../../src/shared/contract/event.ts';
import { createAgentWith } from '../../../../src/worker/local/create-agent.ts';
import { scriptedModel } from '../../../../src/testing/scripted-model.ts';
import { always } from '../../../../src/testing/scripts.ts';
import { defineAgent } from '../../../../src/worker/agents/define-agent.ts';
import {
  defineAgentManifest,
  type ManifestContext,
  type ManifestRubric,
  type ManifestRun,
} from '../../../../src/worker/local/manifest/define-manifest.ts';
import { runManifest, scoreWith } from '../../../../src/worker/local/manifest/run-manifest.ts';
import { runAgentTaskStream } from '../../../../src/worker/orchestration/task/run-task.ts';
import { all } from '../../../support/http.ts';
import { counting } from '../../orchestration/task/task-world.ts';

const context: ManifestContext = { signal: new AbortController().signal };
const rubric = { dimensions: [{ id: 'answered', weight: 1 }] };

function thinking(): EventBody {
  return { type: 'agent.thinking' };
}

/** A manifest whose runs hand out so many events and then `done`. `seen` counts the events that were taken from them. */
function manifestOf(count: number, over: Partial<ManifestRun<string>> = {}) {
  const seen = { taken: 0 };
  const act = (): ManifestRun<string> => ({
    events: (async function* () {
      for (let n = 0; n < count; n++) {
        seen.taken++;
        yield thinking();
      }
    })(),
    output: Promise.resolve('done'),
    ...over,
  });
  return { manifest: defineAgentManifest({ id: 'm', rubric, run: { act } }), seen };
}

test('the output settles after the events are drained', async () => {
  const { manifest } = manifestOf(3);
  const { events, output } = manifest.run.act({}, context);
  const order: string[] = [];
  const settled = output.then((value) => order.push(value));
  for await (const event of events) {
    // Everything that does not wait for the reader happens now.
    await new Promise(setImmediate);
    order.push(event.type);
  }
  await settled;
  expect(order).toEqual(['agent.thinking', 'agent.thinking', 'agent.thinking', 'done']);
});

test('the output of a run whose events are not read settles as well, however many there are', async () => {
  const { manifest, seen } = manifestOf(5_000);
  expect(await manifest.run.act({}, context).output).toBe('done');
  expect(seen.taken).toBe(5_000);
});

test('a source is read no further than there is room for its reader', async () => {
  const { manifest, seen } = manifestOf(5_000);
  const { events, output } = manifest.run.act({}, context);
  let read = 0;
  for await (const _ of events) {
    read++;
    // Everything that does not wait for the reader happens now.
    if (read % 1_000 === 1) await new Promise(setImmediate);
    expect(seen.taken - read).toBeLessThanOrEqual(1_002);
  }
  expect([read, await output]).toEqual([5_000, 'done']);
});

test('a reader that leaves does not hold up the output, and neither does one that is stuck when the run is aborted', async () => {
  const { manifest } = manifestOf(5_000);
  const left = manifest.run.act({}, context);
  for await (const _ of left.events) break;
  expect(await left.output).toBe('done');
  const stop = new AbortController();
  const stuck = manifest.run.act({}, { signal: stop.signal });
  await stuck.events[Symbol.asyncIterator]().next();
  stop.abort();
  expect(await stuck.output).toBe('done');
});

test('the output and the reader get what failed, the reader where it broke off', async () => {
  const failing = manifestOf(1, { output: Promise.reject(new Error('no answer')) });
  const run = failing.manifest.run.act({}, context);
  expect(await all(run.events)).toHaveLength(1);
  await expect(run.output).rejects.toThrow('no answer');
  const broken = manifestOf(0, {
    // oxlint-disable-next-line require-yield -- it breaks before its first event
    events: (async function* (): AsyncGenerator<EventBody> {
      throw new Error('cut off');
    })(),
  });
  const cut = broken.manifest.run.act({}, context);
  await expect(all(cut.events)).rejects.toThrow('cut off');
});

test('a run that is none is refused', () => {
  const act = (() => Promise.resolve('later')) as never;
  const manifest = defineAgentManifest({ id: 'm', rubric, run: { act } });
  expect(() => manifest.run.act({}, context)).toThrow(expect.objectContaining({ code: 'validation' }));
});

interface Persona {
  readonly question: string;
  readonly expects: string;
}
interface Answer {
  readonly text?: string | undefined;
  readonly costMicrocents: number;
}

const support = defineAgent({ id: 'support', model: 'gpt-5.2-mini', instructions: 'You answer briefly.' });
const measured: ManifestRubric<Persona, Answer> = {
  dimensions: [
    { id: 'right', weight: 0.75, score: ({ persona, output }) => (output.text?.includes(persona.expects) ? 1 : 0) },
    { id: 'cheap', weight: 0.25, score: async ({ output }) => (output.costMicrocents < 1_000_000 ? 0.5 : 0) },
  ],
};

test('a manifest of id, rubric and run is measured offline with a scripted model', async () => {
  const manifest = defineAgentManifest({
    id: 'support',
    rubric: measured,
    run: {
      act: ({ question }: Persona, { provider, signal }: ManifestContext): ManifestRun<Answer> => {
        const agent = createAgentWith(support, { env: {}, ...(provider && { provider }) });
        const stream = agent.stream(question, { signal });
        return { events: stream, output: stream.result };
      },
    },
  });
  const provider = scriptedModel(always('It was shipped.'));
  const persona = { question: 'Where is order 7?', expects: 'shipped' };
  const { output, events, evals, score } = await runManifest(manifest, persona, { provider });
  expect(output).toMatchObject({ status: 'completed', text: 'It was shipped.' });
  expect(events.at(-1)?.type).toBe('run.completed');
  expect(evals).toEqual([
    { id: 'right', score: 1, passed: true },
    { id: 'cheap', score: 0.5, passed: true },
  ]);
  expect(score).toEqual({
    score: 0.875,
    dimensions: [
      { id: 'right', weight: 0.75, score: 1, missing: false },
      { id: 'cheap', weight: 0.25, score: 0.5, missing: false },
    ],
  });
  const wrong = await runManifest(manifest, { ...persona, expects: 'lost' }, { provider });
  expect(wrong.score.score).toBe(0.125);
});

test('a dimension without a scorer takes the eval of its name from the output of a task', async () => {
  const manifest = defineAgentManifest({
    id: 'counter',
    rubric: {
      dimensions: [
        { id: 'three', weight: 0.5 },
        { id: 'quiet', weight: 0.5 },
      ],
    },
    run: {
      act: (id: string, { signal }: ManifestContext) => {
        const stream = runAgentTaskStream(counting().adapter, { task: { id }, signal });
        return { events: stream, output: stream.result };
      },
    },
  });
  const { evals, score, events } = await runManifest(manifest, 'ann');
  expect(evals).toEqual([{ id: 'three', passed: true, score: 0.75 }]);
  expect(score).toMatchObject({ score: 0.375, dimensions: [{ missing: false }, { score: 0, missing: true }] });
  expect(events.at(-1)?.type).toBe('task.end');
});

test('a run that takes too long, is cancelled, or is scored with what is no score is an error', async () => {
  const hanging = manifestOf(0, { output: new Promise(() => {}) }).manifest;
  await expect(runManifest(hanging, {}, { timeoutMs: 20 })).rejects.toMatchObject({ code: 'run_timeout' });
  const signal = AbortSignal.abort();
  await expect(runManifest(hanging, {}, { signal })).rejects.toMatchObject({ code: 'cancelled' });
  const dimensions = [{ id: 'a', weight: 1, score: () => 70 }];
  const { run } = manifestOf(1).manifest;
  const wild = defineAgentManifest({ id: 'wild', rubric: { dimensions }, run });
  await expect(runManifest(wild, {})).rejects.toMatchObject({ code: 'validation' });
});

test('scores are weighed by the dimension that has their name', () => {
  const dimensions = [
    { id: 'a', weight: 0.9 },
    { id: 'b', weight: 0.3 },
    { id: 'c', weight: 0 },
  ];
  const evals = [
    { id: 'a', passed: true },
    { id: 'b', passed: false, score: 0.4 },
    { id: 'stranger', passed: true, score: 1 },
  ];
  expect(scoreWith({ dimensions }, evals).score).toBeCloseTo((0.9 + 0.3 * 0.4) / 1.2);
  expect(scoreWith({ dimensions: [{ id: 'c', weight: 0 }] }, evals).score).toBe(0);
});
