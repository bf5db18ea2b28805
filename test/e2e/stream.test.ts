import { expect, test } from 'vitest';
import type { RunEvent } from '../../src/producer/index.ts';
import { all, call, sse } from '../support/http.ts';
import { planInput, tokensPerCall, type PlannedStep } from '../support/plan.ts';
import { shareWorld } from '../support/world.ts';

// One event per delta, so that there is a middle to resume from.
const shared = shareWorld({ producer: true, env: { STREAM_FLUSH_MS: '0' } });

const lookThenAnswer: PlannedStep[] = [
  { text: 'Let me look. ', calls: [{ name: 'look', args: { id: 'order-7' } }] },
  { text: 'Your order is on its way.' },
];

test('a run goes from HTTP through a tool to its result', async () => {
  const { world } = shared;
  const accepted = await call('POST', `${world.url}/v1/runs`, { agent: 'hands', input: planInput(...lookThenAnswer) });
  expect(accepted.status).toBe(202);
  expect(accepted.body).toEqual({ runId: expect.any(String), status: 'queued', attached: false });
  const { runId } = accepted.body;

  const events = await all(sse(`${world.url}/v1/runs/${runId}/events`));
  const result = await call('GET', `${world.url}/v1/runs/${runId}/result?wait=30`);
  expect(result.status).toBe(200);
  expect(result.body).toMatchObject({
    runId,
    status: 'completed',
    text: 'Your order is on its way.',
    steps: 2,
    usage: { input: 2 * tokensPerCall.input, output: 2 * tokensPerCall.output },
  });
  expect(result.body.costMicrocents).toBeGreaterThan(0);

  const observed = await world.ended({ runId });
  expect(events).toEqual(observed.events);
  expect(events.map((event) => event.type)).toEqual(
    expect.arrayContaining([
      'run.queued',
      'run.started',
      'step.start',
      'text.delta',
      'tool.call.start',
      'tool.execute.end',
      'cost.updated',
      'run.completed',
    ]),
  );
  expect(observed.executions).toMatchObject([{ tool: 'look', id: 'order-7' }]);
  const view = await call('GET', `${world.url}/v1/runs/${runId}`);
  expect(view.body).toEqual(JSON.parse(JSON.stringify(observed.view)));
});

test('the same run goes through the TypeScript client', async () => {
  const { world } = shared;
  const run = await world.submit('hands', lookThenAnswer, { metadata: { order: '7' } });
  expect(run.attached).toBe(false);
  const seen = await all(run.events());
  const { text, status } = await run.result();
  expect({ text, status }).toEqual({ text: 'Your order is on its way.', status: 'completed' });
  expect((await world.ended(run)).events).toEqual(seen);
  expect((await run.get()).metadata).toEqual({ order: '7' });
});

test('an agent written in TypeScript uses the tool in its own file', async () => {
  const { world } = shared;
  const run = await world.submit('careful', [{ calls: [{ name: 'double', args: { n: 21 } }] }, { text: '42.' }]);
  const { view } = await world.ended(run);
  expect(view.result?.text).toBe('42.');
  const results = world.provider.callsOf(run.runId, 2)[0]?.messages.at(-1);
  expect(results).toMatchObject({ role: 'tool', content: expect.stringContaining('42') });
});

test('tool calls of one step run side by side and answer in the order of the model', async () => {
  const { world } = shared;
  const gate = 'side-by-side';
  const calls = ['a', 'b', 'c'].map((id) => ({ name: 'look', args: { id, gate } }));
  const run = await world.submit('hands', [{ calls }, { text: 'Done.' }]);
  // The gate opens only when all three have begun: one after the other would never get there.
  await world.toolWorks(run, 3);
  world.fleet.openGate(gate);
  await world.ended(run);
  const results = world.provider.callsOf(run.runId, 2)[0]?.messages.filter((message) => message.role === 'tool');
  expect(results?.map((message) => JSON.stringify(message.content).match(/done[^a-c]*([abc])/)?.[1])).toEqual([
    'a',
    'b',
    'c',
  ]);
});

test('an event stream resumes in the middle of a run without gap or repeat', async () => {
  const { world } = shared;
  const gate = 'resume-middle';
  const run = await world.submit('plain', [{ text: 'one two three four five six', hold: { gate, afterPieces: 3 } }]);
  const url = `${world.url}/v1/runs/${run.runId}/events`;
  await world.provider.gates.reached(gate);
  const before: RunEvent[] = [];
  for await (const event of sse(url)) {
    before.push(event);
    if (event.type === 'text.delta') break;
  }
  const rest = all(sse(url, { 'last-event-id': String(before.at(-1)?.sequenceNumber) }));
  world.provider.gates.open(gate);
  expect([...before, ...(await rest)]).toEqual((await world.ended(run)).events);
});

test('an event stream can be read from any position after the run has ended', async () => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'a b c d e f g h' }]);
  const { events } = await world.ended(run);
  const url = `${world.url}/v1/runs/${run.runId}/events`;
  for (const after of [0, 1, Math.floor(events.length / 2), events.length - 1]) {
    expect(await all(sse(url, { 'last-event-id': String(after) }))).toEqual(events.slice(after));
    expect(await all(sse(`${url}?after=${after}`))).toEqual(events.slice(after));
  }
  for (const beyond of [events.length, events.length + 1_000]) {
    expect(await all(sse(url, { 'last-event-id': String(beyond) }))).toEqual([]);
  }
  const lines = await call('GET', `${url}?after=2`, undefined, { accept: 'application/x-ndjson' });
  expect(lines.headers.get('content-type')).toContain('application/x-ndjson');
  expect(
    String(lines.body)
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual(events.slice(2));
});

test.each(['-1', 'abc', '1.5'])('a stream from position %s is refused', async (position) => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'short' }]);
  await world.ended(run);
  const answer = await call('GET', `${world.url}/v1/runs/${run.runId}/events`, undefined, {
    'last-event-id': position,
  });
  expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
});

test('the same execution id attaches to the run it made, and another body conflicts', async () => {
  const { world } = shared;
  const body = { agent: 'plain', input: planInput({ text: 'once' }) };
  const send = (input: object) => call('POST', `${world.url}/v1/runs`, input, { 'idempotency-key': 'order-7' });
  const answers = await Promise.all(Array.from({ length: 20 }, () => send(body)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
  expect(new Set(answers.map((answer) => answer.body.runId)).size).toBe(1);
  expect(answers.filter((answer) => !answer.body.attached)).toHaveLength(1);
  const [runId] = answers.map((answer) => answer.body.runId as string);
  await world.ended({ runId: runId as string });
  expect((await send(body)).body).toMatchObject({ runId, attached: true, status: 'completed' });
  const other = await send({ ...body, agent: 'hands' });
  expect([other.status, other.body.error.code]).toEqual([409, 'idempotency_conflict']);
  expect(world.provider.callsOf(runId as string)).toHaveLength(1);
});

test('bulk items are answered in order, and a bad one does not hinder the others', async () => {
  const { world } = shared;
  const good = { agent: 'plain', input: planInput({ text: 'bulk' }) };
  const answer = await call('POST', `${world.url}/v1/runs/bulk`, [good, { agent: 'plain' }, good]);
  expect(answer.body).toMatchObject([
    { runId: expect.any(String) },
    { error: { code: 'validation' } },
    { runId: expect.any(String) },
  ]);
  for (const item of [answer.body[0], answer.body[2]]) expect((await world.ended(item)).view.status).toBe('completed');
});
