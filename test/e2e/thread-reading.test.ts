import { expect, test } from 'vitest';
import { until } from '../support/redis.ts';
import { call } from '../support/http.ts';
import { makeWorld, type World } from '../support/world.ts';

/** What the messages of a thread are after its first, with those that are live marked. */
async function seen({ url }: World, threadId: string): Promise<string[]> {
  const { body } = await call('GET', `${url}/v1/threads/${threadId}/messages?after=1`);
  return (body.messages as { kind: string; live?: true }[]).map(({ kind, live }) => `${kind}${live ? ' live' : ''}`);
}

test('calls of a run show while it works, stay when its worker is killed, and are in the log once after its end', async () => {
  const world = await makeWorld({ producer: true });
  const hold = { gate: 'answer', afterPieces: 1 };
  const plan = [
    { text: 'I look.', calls: [{ name: 'look', args: { id: '7' } }] },
    { text: 'It is shipped.', hold },
  ];
  const run = await world.submit('hands', plan, { thread: 'talk' });
  const steps = ['assistant_text live', 'tool_use live', 'tool_result live'];
  await until('its calls show', async () => (await seen(world, 'talk')).length === steps.length);
  expect(await seen(world, 'talk')).toEqual(steps);
  const { body } = await call('GET', `${world.url}/v1/threads/talk`);
  expect(body).toMatchObject({ lockOwner: run.runId, waiting: 0, lastSeq: 1 });
  expect((await call('DELETE', `${world.url}/v1/threads/talk`)).body.error.code).toBe('concurrent_run');

  const lockOwner = await world.workerOf(run);
  lockOwner.signal('SIGKILL');
  await lockOwner.exited;
  expect(await seen(world, 'talk')).toEqual(steps);

  await world.addWorker();
  world.provider.gates.open('answer');
  expect((await run.result()).status).toBe('completed');
  expect(await seen(world, 'talk')).toEqual(['assistant_text', 'tool_use', 'tool_result', 'message']);
  await until('it is not locked', async () => (await world.mill.threads.get('talk')).lockOwner === undefined);
  expect((await call('DELETE', `${world.url}/v1/threads/talk`)).status).toBe(200);
});
