import { expect, test } from 'vitest';
import type { EventOf } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import { all, call, sse } from '../support/http.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { makeWorld, shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

/** A node whose user message is the plan for the model server. */
function nodeWith(more: object, ...plan: PlannedStep[]) {
  return {
    type: 'agent',
    id: 'draft',
    prompt_template: '{{ inputs.plan }}',
    inputs: { plan: planInput(...plan) },
    ...more,
  };
}

test('a node is run over HTTP: its prompt is its template, and its events carry its id', async () => {
  const { world } = shared;
  const body = {
    agent: 'plain',
    input: '',
    node: nodeWith({ system_prompt_append: 'Mind {{ run.outputs.x }}.' }, { text: 'Written.' }),
  };
  const accepted = await call('POST', `${world.url}/v1/runs`, body);
  expect(accepted.status).toBe(202);
  const observed = await world.ended(accepted.body as { runId: string });
  const { runId } = observed.view;
  const messages = world.provider.callsOf(runId)[0]?.messages ?? [];
  expect(messages[0]?.content).toBe('You answer briefly.\n\nMind {{ run.outputs.x }}.');
  expect(observed.view.result?.text).toBe('Written.');
  expect(observed.events.every((event) => event.nodeId === 'draft')).toBe(true);
  const types = (await all(sse(`${world.url}/v1/runs/${runId}/events`))).map(({ type }) => type);
  expect(types).toEqual(expect.arrayContaining(['node.started', 'node.completed']));
  const [started] = eventsOf(observed, 'run.started') as [EventOf<'run.started'>];
  expect(started.kind).toBe('node');
  const [spoken] = await all(world.mill.events(runId, { dialect: 'relavium' }));
  expect(spoken).toMatchObject({ type: 'run:started', workflowId: 'draft' });
});

test.each([
  ['a secret', { prompt_template: '{{ secrets.key }}' }],
  ['a secret in the text that is not a template', { system_prompt_append: '{{ secrets.key }}' }],
  ['no template', { prompt_template: undefined }],
  ['no id', { id: undefined }],
  ['an agent of its own', { agent_ref: 'other' }],
  ['an error that cannot be tried again', { nodeRetry: { max: 2, retry_on: ['validation'] } }],
])('a node with %s is refused at the door', async (_, wrong) => {
  const body = { agent: 'plain', input: '', node: { ...nodeWith({}), ...wrong } };
  const answer = await call('POST', `${shared.world.url}/v1/runs`, body);
  expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
});

test('agents and nodes can be submitted together', async () => {
  const { world } = shared;
  const answers = await world.mill.enqueueMany([
    { agent: 'plain', input: planInput({ text: 'one' }) },
    { agent: 'plain', input: '', node: nodeWith({}, { text: 'two' }) },
    { agent: 'plain', input: planInput({ text: 'three' }) },
  ]);
  const kinds = [];
  for (const answer of answers) {
    if (!('runId' in answer)) throw new Error('was refused');
    const observed = await world.ended(answer);
    kinds.push([eventsOf(observed, 'run.started')[0]?.kind, observed.view.result?.text]);
  }
  expect(kinds).toEqual([
    ['agent.turn', 'one'],
    ['node', 'two'],
    ['agent.turn', 'three'],
  ]);
});

test('a node that waits for its next try occupies no worker, and goes on although that worker was killed', async () => {
  const world = await makeWorld({ env: { PROVIDER_WAIT_MS: '0' } });
  const faults = [{ kind: 'status' as const, status: 503 }];
  const node = nodeWith({ nodeRetry: { max: 2, backoff_ms: 3_000 } }, { text: 'Written.', faults });
  const run = await world.mill.enqueue({ agent: 'plain', input: '', node });
  await until('the node waits', async () => (await world.mill.get(run.runId)).status === 'suspended');
  expect(await world.mill.get(run.runId)).toMatchObject({ pending: [{ kind: 'retry', id: 'draft' }] });
  await world.worker.kill();
  await world.addWorker();
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', recoveries: 0 });
  expect(eventsOf(observed, 'node.retrying')).toMatchObject([{ attemptNumber: 1, delayMs: 3_000 }]);
  expect(world.provider.callsOf(run.runId)).toHaveLength(2);
});
