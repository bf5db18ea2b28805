import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { call, sse } from '../support/http.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

/** Starts a run over HTTP and waits for its end. */
async function result(agent: string, ...plan: PlannedStep[]) {
  const { world } = shared;
  const accepted = await call('POST', `${world.url}/v1/runs`, { agent, input: planInput(...plan) });
  expect(accepted.status).toBe(202);
  const { runId } = accepted.body;
  const { status, body } = await call('GET', `${world.url}/v1/runs/${runId}/result?wait=20`);
  expect(status).toBe(200);
  return { runId: String(runId), outcome: body, observed: await world.ended({ runId }) };
}

test('a run that may degrade ends with the failure of its model as its text', async () => {
  const { world } = shared;
  const fault = { kind: 'status', status: 503 } as const;
  const { runId, outcome } = await result('resigned', { text: 'never', faults: [fault, fault] });
  expect(outcome).toMatchObject({ status: 'degraded' });
  expect(outcome.text).toMatch(/^LLM call failed: .*503/);
  expect(world.provider.callsOf(runId)).toHaveLength(2);
  const types: string[] = [];
  for await (const event of sse(`${world.url}/v1/runs/${runId}/events`)) types.push(event.type);
  expect(types.at(-1)).toBe('run.completed');
});

test('a policy that refuses the next call fails the run, and the model is not asked', async () => {
  const { world } = shared;
  const look = { calls: [{ name: 'look', args: { id: 'x' } }] };
  const { runId, outcome, observed } = await result('guarded', look, { text: 'never' });
  expect(outcome).toMatchObject({
    status: 'failed',
    error: { code: 'policy_denied', message: 'Enough was said.', retryable: false },
  });
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([
    { subject: 'llm_call', action: 'deny', reason: 'Enough was said.', ruleId: 'one-step' },
  ]);
  expect(observed.executions.map(({ tool }) => tool)).toEqual(['look']);
  expect(world.provider.callsOf(runId)).toHaveLength(1);
});

test('a run that may degrade ends with the reason of the policy as its text, and costs nothing', async () => {
  const { world } = shared;
  const { runId, outcome, observed } = await result('muzzled', { text: 'never' });
  expect(outcome).toMatchObject({ status: 'degraded', text: 'Not today.' });
  expect(observed.view).toMatchObject({ costMicrocents: 0, attempts: [] });
  expect(world.provider.callsOf(runId)).toEqual([]);
});
