import { expect, test } from 'vitest';
import { evaluateRequest } from '../../../src/shared/contract/orchestration/requests.ts';
import { evaluateOrchestration } from '../../../src/worker/orchestration/evaluate-orchestration.ts';
import type { AskedChild, ChildAnswer, OrchestrationHost } from '../../../src/worker/orchestration/orchestration.ts';

const schema = { type: 'object', properties: { total: { type: 'integer' } }, required: ['total'] };

/** A host whose generator answers one text after the other. */
function hostOf(answers: readonly string[], steps = new Map<string, unknown>()) {
  const asked: string[] = [];
  const host: Partial<OrchestrationHost> = {
    signal: new AbortController().signal,
    now: () => 0,
    emit: () => {},
    step: async (key, work) => {
      if (!steps.has(key)) steps.set(key, await work(new AbortController().signal));
      return steps.get(key);
    },
    child: (_, { input }: AskedChild) => {
      asked.push(input);
      const text = answers[asked.length - 1] ?? '';
      const end = { kind: 'child', id: 'r', status: 'completed', text, costMicrocents: 0, at: '' } as const;
      return Promise.resolve({ kind: 'ended', runId: 'r', end } as unknown as ChildAnswer);
    },
  };
  return { host: host as OrchestrationHost, asked, steps };
}

const request = (given: unknown) =>
  evaluateRequest.parse({ generator: 'extractor', evaluator: { schema: given }, maxIterations: 3 });

test('an answer that is JSON of the schema passes, and until then the generator gets what is wrong', async () => {
  const { host, asked, steps } = hostOf(['no idea', '{"total":"7"}', '```json\n{"total":7}\n```']);
  const result = await evaluateOrchestration(request(schema), 'Read it.')(host);
  expect(result.output).toMatchObject({ termination: 'pass', best: 3 });
  expect(asked[1]).toContain('the answer is not JSON');
  expect(asked[2]).toContain('total: must be integer');
  expect(steps.get('evaluate:3')).toEqual({ passed: true });
});

test('a verdict that was given stays, also when the orchestration is replayed', async () => {
  const kept = new Map<string, unknown>([['evaluate:1', { passed: true }]]);
  const { host } = hostOf(['no idea'], kept);
  expect((await evaluateOrchestration(request(schema), 'Read it.')(host)).text).toBe('no idea');
});

test('a schema that cannot be used is refused before anything is asked', async () => {
  const { host, asked } = hostOf([]);
  const refers = { type: 'object', properties: { a: { $ref: 'https://example.com/a.json' } } };
  await expect(evaluateOrchestration(request(refers), 'Read it.')(host)).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining('evaluator.schema') as string,
  });
  expect(asked).toEqual([]);
});
