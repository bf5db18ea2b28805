import { describe, expect, test } from 'vitest';
import type { LlmRequest } from '../../src/worker/llm/provider.ts';
import { chatBody } from '../../src/worker/llm/openai/chat.ts';
import { replayHandoffs } from '../../src/worker/local/replay-handoffs.ts';
import { eventsOf, observe } from '../support/check-run.ts';
import { shareWorld } from '../support/world.ts';
import { until } from '../support/redis.ts';

const shared = shareWorld({ producer: true });
const to = (agent: string) => ({ name: `transfer_to_${agent}`, args: { reason: 'it knows better' } });

describe('agents that hand over', () => {
  test('the other agent goes on with its own instructions and tools, on any worker', async () => {
    const { world } = shared;
    const run = await world.submit('receptionist', [
      { calls: [{ name: 'look', args: { id: 'l' } }, to('gated')] },
      { calls: [{ name: 'charge', args: { id: 'h' } }] },
      { text: 'All done.' },
    ]);
    await until('the second agent waits for people', async () => (await run.get()).status === 'suspended');
    world.worker.signal('SIGKILL');
    await world.worker.exited;
    await world.addWorker();
    const [item] = (await run.get()).pending;
    await run.approve({ calls: item?.toolCallId ?? '' });
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'All done.' }, agent: 'receptionist' });
    expect(observed.executions.map(({ tool }) => tool)).toEqual(['look', 'charge']);
    expect(eventsOf(observed, 'handoff')).toMatchObject([
      {
        fromAgentId: 'receptionist',
        toAgentId: 'gated',
        filter: {
          kind: 'compose',
          steps: [{ kind: 'last-n', n: 10 }, { kind: 'strip-sensitive-outputs' }, { kind: 'strip-reasoning' }],
        },
      },
    ]);
    const [first, second, third] = world.provider.callsOf(run.runId);
    expect(first?.messages[0]).toMatchObject({ role: 'system', content: 'You receive people.' });
    for (const call of [second, third]) {
      const texts = call?.messages.map(({ content }) => content) ?? [];
      expect(texts).not.toContain('You receive people.');
      expect(texts).toContain('The conversation goes on with gated.');
    }
    const speakers = observed.events.filter(({ type }) => type === 'step.start').map(({ agentId }) => agentId);
    expect(speakers).toEqual(['receptionist', 'gated', 'gated']);
  });

  test('a filter decides what crosses', async () => {
    const { world } = shared;
    const run = await world.submit('receptionist', [{ calls: [to('plain')] }]);
    const observed = await observe(world.mill, run.runId, () => []);
    const calls = world.provider.callsOf(run.runId);
    // The other agent sees the user's message alone, so its model begins the plan again and calls a tool it does not have.
    expect(calls[1]?.messages.filter(({ role }) => role !== 'system')).toHaveLength(1);
    expect(eventsOf(observed, 'tool.execute.error')).toMatchObject([{ error: { kind: 'unknown_tool' } }]);
  });

  test('what crossed in a thread is rebuilt from its export as the model of the other agent got it', async () => {
    const { world } = shared;
    const earlier = await world.submit(
      'receptionist',
      [{ calls: [{ name: 'look', args: { id: '"é"' } }] }, { text: 'Done.' }],
      {
        thread: 'handed',
      },
    );
    expect((await earlier.result()).status).toBe('completed');
    const run = await world.submit(
      'receptionist',
      [
        { text: 'I look first.', calls: [{ name: 'look', args: { id: 'l' } }] },
        { calls: [{ name: 'look', args: { id: 'm' } }] },
        { text: 'Another one knows.', calls: [to('gated')] },
        { text: 'All done.' },
      ],
      { thread: 'handed' },
    );
    expect((await run.result()).text).toBe('All done.');
    const answer = await fetch(`${world.url}/v1/threads/handed/export`);
    const replayed = replayHandoffs(await answer.text());
    expect(replayed).toMatchObject([
      { kind: 'replayed', runId: run.runId, fromAgentId: 'receptionist', toAgentId: 'gated' },
    ]);
    const [handoff] = replayed;
    const messages = handoff?.kind === 'replayed' ? handoff.messages : [];
    const seen = world.provider.callsOf(run.runId)[3]?.messages.filter(({ role }) => role !== 'system');
    expect(seen).toHaveLength(10);
    const wire = chatBody({ model: 'm', messages } as LlmRequest, { provider: 'openai', maxTokensField: 'max_tokens' });
    expect(JSON.stringify(wire.messages)).toBe(JSON.stringify(seen));
  });

  test('two in one step end the run', async () => {
    const { world } = shared;
    const run = await world.submit('receptionist', [{ calls: [to('plain'), to('gated')] }, { text: '-' }]);
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'failed', error: { code: 'multiple_handoffs_in_step' } });
  });

  test('the fourth in a row is refused, and the agent goes on itself', async () => {
    const { world } = shared;
    const again = { calls: [to('receptionist')] };
    const run = await world.submit('receptionist', [again, again, again, again, { text: 'I do it.' }]);
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'I do it.' } });
    expect(eventsOf(observed, 'handoff')).toHaveLength(3);
    // A handoff that is refused is a failed call; one that works executes nothing.
    expect(eventsOf(observed, 'tool.execute.error')).toMatchObject([{ error: { kind: 'depth_limit' } }]);
    expect(eventsOf(observed, 'tool.execute.start')).toHaveLength(1);
    expect(eventsOf(observed, 'tool.execute.end')).toEqual([]);
  });
});
