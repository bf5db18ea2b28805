import { expect, test } from 'vitest';
import { z } from 'zod';
import type { CancelRequest } from '../../../src/shared/contract/control.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import type { LlmProvider } from '../../../src/worker/llm/provider.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { makeJobs } from './job-world.ts';

/** Asks for two payments, then answers how many results there are. */
const provider: LlmProvider = {
  id: 'model',
  capabilities: { tools: true, reasoning: false },
  async generate({ messages }) {
    const results = messages.filter(({ role }) => role === 'tool').length;
    const call = (id: string) => ({ type: 'tool_call' as const, id, name: 'pay', args: `{"to":"${id}"}` });
    const parts = results === 0 ? [call('a'), call('b')] : [{ type: 'text' as const, text: `${results} results` }];
    const message = { role: 'assistant' as const, parts };
    return {
      message,
      finishReason: results === 0 ? ('tool_use' as const) : ('stop' as const),
      incompleteToolCalls: [],
    };
  },
};

/** A run of which one call was granted and runs, while the other is undecided, and which is cancelled then. */
async function cancelledInBetween(onPendingApprovals: CancelRequest['onPendingApprovals']) {
  const started = Promise.withResolvers<void>();
  const paid: string[] = [];
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    inputSchema: z.object({ to: z.string() }),
    effect: 'idempotent',
    needsApproval: true,
    async execute({ to }, { signal }) {
      started.resolve();
      if (paid.length === 0 && to === 'a' && !signal.aborted)
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      paid.push(to);
      return 'paid';
    },
  });
  const jobs = makeJobs(defineAgent({ id: 'payer', model: 'm', tools: [pay] }), provider);
  const runId = jobs.submit({ input: 'Pay them.' });
  await jobs.deliver(runId);
  jobs.ports.decide(runId, { approvals: [{ toolCallId: 'a', granted: true }] });
  const working = jobs.deliver(runId);
  await started.promise;
  jobs.ports.cancel(runId, { drain: false, onPendingApprovals });
  const outcome = await working;
  return { jobs, runId, paid, outcome, record: await jobs.ports.runs.load(runId) };
}

test('deny: an undecided call is emitted as denied, and the run is cancelled', async () => {
  const { jobs, runId, record } = await cancelledInBetween('deny');
  expect(record).toMatchObject({ status: 'cancelled', pending: [] });
  expect(jobs.eventsOf(runId, 'tool.approval.denied')).toMatchObject([
    { toolCallId: 'b', reason: 'the run was cancelled' },
  ]);
});

test('fail: the run fails because something was pending', async () => {
  const { record } = await cancelledInBetween('fail');
  expect(record).toMatchObject({ status: 'failed', error: { code: 'run_aborted', retryable: false } });
});

test('hold: the run goes on waiting for the other decision, and then to its end', async () => {
  const { jobs, runId, outcome, record, paid } = await cancelledInBetween('hold');
  expect(outcome).toEqual({ kind: 'suspended' });
  expect(record).toMatchObject({ status: 'suspended', pending: [{ id: 'b' }] });
  const [suspended] = jobs.eventsOf(runId, 'run.suspended');
  expect(suspended?.expiresAt).toBe(record?.pending[0]?.expiresAt ?? 'nothing');
  jobs.ports.decide(runId, { approvals: [{ toolCallId: 'b', granted: true }] });
  await jobs.deliver(runId);
  expect(await jobs.ports.runs.load(runId)).toMatchObject({ status: 'completed', result: { text: '2 results' } });
  expect(new Set(paid)).toEqual(new Set(['a', 'b']));
  expect(jobs.eventsOf(runId, 'run.cancelled')).toEqual([]);
});
