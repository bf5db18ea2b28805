import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';

const shared = shareWorld({ producer: true });

/** The system messages of each model call of a run. */
function systemsOf(world: World, { runId }: { readonly runId: string }): (readonly string[])[] {
  return world.provider
    .callsOf(runId)
    .map(({ messages }) => messages.filter(({ role }) => role === 'system').map(({ content }) => String(content)));
}

test('a prompt that a builder made stays what it was when another worker goes on', async () => {
  const world = await makeWorld({ workers: 2 });
  const plan = [{ calls: [{ name: 'look', args: { id: 'x', gate: 'again' } }] }, { text: 'Done.' }];
  const run = await world.submit('prompted', plan, { task: 'audit', thread: 'books' });
  await world.toolWorks(run);
  const killed = await world.workerOf(run);
  await killed.kill();
  await world.toolWorks(run, 2);
  world.fleet.openGate('again');
  expect((await world.ended(run)).view.status).toBe('completed');
  const [first, second] = systemsOf(world, run);
  expect(second?.[0]).toBe(first?.[0]);
  const [built = '', ...skills] = (first?.[0] ?? '').split('\n\n');
  expect(JSON.parse(built)).toMatchObject({
    by: killed.pid,
    task: 'Audit the books',
    background: false,
    threadId: 'books',
  });
  expect(skills.at(-1)).toBe('- house-style: How letters of this house are written.');
});

test('a skill and its files reach the model when it asks for them', async () => {
  const { world } = shared;
  const read = (more: object) => ({ name: 'read_skill', args: { name: 'house-style', ...more } });
  const plan = [{ calls: [read({}), read({ path: 'references/numbers.md' }), read({ path: '../../plain.yaml' })] }];
  const run = await world.submit('prompted', [...plan, { text: 'Read.' }]);
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  const messages = world.provider.callsOf(run.runId, 2)[0]?.messages.slice(-3) ?? [];
  expect(messages[0]?.content).toBe('Write in short sentences. Numbers: references/numbers.md.');
  expect(messages[1]?.content).toContain('Numbers up to twelve are words.');
  expect(messages[2]?.content).toContain('Kind: capability_blocked');
  // The text that only comes with results stands after what providers have cached.
  const [first, second] = systemsOf(world, run);
  expect([first?.length, second?.length]).toEqual([1, 2]);
  expect(second?.[0]).toBe(first?.[0]);
});

test('a run in the background can notify its user, and one in front cannot', async () => {
  const { world } = shared;
  const notify = { calls: [{ name: 'notify_user', args: { message: 'The books are done.' } }] };
  const behind = await world.submit('plain', [notify, { text: 'Sent.' }], { overrides: { background: true } });
  const observed = await world.ended(behind);
  expect(eventsOf(observed, 'capability.user_notified')).toMatchObject([
    { message: 'The books are done.', agentId: 'plain' },
  ]);
  const front = await world.submit('plain', [notify, { text: 'Not sent.' }]);
  const seen = await world.ended(front);
  expect(eventsOf(seen, 'capability.user_notified')).toEqual([]);
  expect(eventsOf(seen, 'tool.execute.error')).toMatchObject([{ error: { kind: 'unknown_tool' } }]);
});

test('a task that there is not fails the run, and no model is asked', async () => {
  const { world } = shared;
  const request = { agent: 'plain', input: '[]', task: 'nope' };
  const { status, body } = await call('POST', `${world.url}/v1/runs`, request);
  expect(status).toBe(202);
  const { view } = await world.ended(body);
  expect(view).toMatchObject({ status: 'failed', error: { code: 'validation', message: 'there is no task nope' } });
  expect(world.provider.callsOf(body.runId)).toEqual([]);
});

test('a task of no possible name is refused at once', async () => {
  const request = { agent: 'plain', input: '[]', task: '../tasks' };
  expect((await call('POST', `${shared.world.url}/v1/runs`, request)).status).toBe(400);
});
