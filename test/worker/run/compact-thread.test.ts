import { expect, test } from 'vitest';
import { textOf, type Message } from '../../../src/shared/contract/message.ts';
import { isSummary } from '../../../src/shared/contract/thread/summary-message.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { makeJobs } from './job-world.ts';

const request = { input: 'And then?', thread: 'talk' };

function makeWorld(compaction?: { keepTurns: number }) {
  const seen: (readonly Message[])[] = [];
  const provider = createScriptedProvider(({ messages }) => {
    seen.push(messages);
    return { text: `Answer ${seen.length}.` };
  });
  const agent = defineAgent({ id: 'writer', model: 'gpt-5.2-mini', ...(compaction && { compaction }) });
  const jobs = makeJobs(agent, provider);
  const turn = async (more: { compact?: true } = {}) => {
    const runId = jobs.submit({ ...request, input: `And then? ${'Tell me all of it. '.repeat(200)}`, ...more });
    await jobs.deliver(runId);
    return runId;
  };
  return { jobs, seen, turn };
}

test('a request has its thread compacted, and the next run begins with the summary', async () => {
  const { jobs, seen, turn } = makeWorld({ keepTurns: 1 });
  for (let before = 0; before < 3; before++) await turn();
  const runId = await turn({ compact: true });
  expect(jobs.eventsOf(runId, 'context.compacted')).toMatchObject([{ source: 'manual' }]);
  const next = await turn();
  expect(jobs.eventsOf(next, 'context.compacted')).toEqual([]);
  const conversation = seen.at(-1) ?? [];
  expect(isSummary(conversation[0])).toBe(true);
  expect(conversation.length).toBeLessThan(9);
  const answers = conversation.flatMap((message) => (message.role === 'assistant' ? [textOf(message)] : []));
  expect(answers).not.toContain('Answer 1.');
});

test('a run of an agent without compaction that asks for one fails', async () => {
  const { jobs, turn } = makeWorld();
  const record = await jobs.load(await turn({ compact: true }));
  expect(record).toMatchObject({ status: 'failed', error: { code: 'validation' } });
  expect(record?.error?.message).toContain('compaction');
});
