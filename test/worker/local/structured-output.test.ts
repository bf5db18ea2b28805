import { expect, test } from 'vitest';
import { z } from 'zod';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';

const outputSchema = z.object({ city: z.string(), people: z.number().int() });

/** An agent whose model gives these answers, one after the other. */
function agentThatAnswers(answers: readonly string[], source: Partial<AgentSource> = {}) {
  const requests: LlmRequest[] = [];
  const provider = createScriptedProvider((request) => {
    requests.push(request);
    return { text: answers[requests.length - 1] ?? 'nothing more' };
  });
  const agent = defineAgent({ id: 'x', model: 'm', outputSchema, ...source });
  return { agent: createAgentWith(agent, { provider, env: {} }), requests };
}

const right = '{"city":"Bonn","people":330000}';
const wrong = '{"city":"Bonn","people":"many"}';

test.each([
  ['valid', right],
  ['valid in a code fence', `\`\`\`json\n${right}\n\`\`\``],
])('an answer that is %s is in the result as data', async (_what, text) => {
  const { agent } = agentThatAnswers([text]);
  const { status, result } = await agent.run('Which city?');
  expect({ status, structured: result?.structured, text: result?.text }).toEqual({
    status: 'completed',
    structured: { city: 'Bonn', people: 330_000 },
    text,
  });
});

test('JSON of another shape fails the run, unless only parsing is asked for', async () => {
  expect(await agentThatAnswers([wrong]).agent.run('x')).toMatchObject({
    status: 'failed',
    error: { code: 'output_validation_failed', retryable: false },
  });
  expect(await agentThatAnswers([wrong], { outputValidation: 'parse' }).agent.run('x')).toMatchObject({
    status: 'completed',
    result: { structured: { city: 'Bonn', people: 'many' } },
  });
});

test('text that is no JSON fails the run either way', async () => {
  for (const outputValidation of ['deep', 'parse'] as const) {
    expect(await agentThatAnswers(['Bonn'], { outputValidation }).agent.run('x')).toMatchObject({
      status: 'failed',
      error: { code: 'validation' },
    });
  }
});

test('a repaired answer is the only one that counts, and both calls are paid', async () => {
  const { agent, requests } = agentThatAnswers([wrong, right], { outputRepairAttempts: 1 });
  const outcome = await agent.run('x');
  expect(outcome).toMatchObject({
    status: 'completed',
    text: right,
    steps: 2,
    result: { structured: { city: 'Bonn', people: 330_000 } },
  });
  expect(requests).toHaveLength(2);
  expect(Object.values(outcome.usage?.byModel ?? {})).toMatchObject([{ attemptCount: 2 }]);
});

test('the model gets the shape as a response format and in words', async () => {
  const { agent, requests } = agentThatAnswers([right], { instructions: 'You know cities.' });
  await agent.run('x');
  const [system] = requests[0]?.messages ?? [];
  expect(system).toMatchObject({ role: 'system', content: expect.stringMatching(/^You know cities\..*"people"/s) });
  expect(requests[0]?.responseFormat).toMatchObject({
    type: 'json_schema',
    json_schema: { schema: { required: ['city', 'people'] } },
  });
});
