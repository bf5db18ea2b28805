import { expect, test } from 'vitest';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import type { EventProfile } from '../../../src/shared/dialects/project.ts';
import { all, sse } from '../../support/http.ts';
import { request } from '../../producer/cli/options/client.ts';
import { RunWriter } from '../../producer/support/run-writer.ts';
import { serverWorld, type ServerWorld } from '../../producer/http/server-world.ts';

const usage = { input: 3, output: 2, cached: 0, cacheWrite: 0, total: 5, byModel: {} };
const story: readonly EventBody[] = [
  { type: 'run.started', kind: 'agent.turn', attempt: 1, model: 'm' },
  { type: 'step.start', stepNumber: 1, model: 'm', modelSource: 'agent' },
  { type: 'text.delta', delta: 'It is sent.', model: 'm' },
  { type: 'tool.execute.start', toolCallId: 'c', toolName: 'lookup', args: {}, summary: 'lookup()' },
  { type: 'capability.pin_changed' },
  { type: 'capability.user_notified', message: 'Look here.' },
  { type: 'capability.file_sent', path: 'a.pdf', fileType: 'application/pdf' },
  { type: 'capability.note_shared', title: 'A note', slug: 'a-note' },
  {
    type: 'run.completed',
    status: 'completed',
    result: { text: 'It is sent.' },
    usage,
    costMicrocents: 700,
    durationMs: 5,
    steps: 1,
  },
];
const sentOnPurpose = ['capability.user_notified', 'capability.file_sent', 'capability.note_shared'];
const everything = ['run.queued', ...story.map(({ type }) => type)];

/** A run that has ended, stamped as a worker stamps it. */
async function endedRun({ mill, redis, keys }: ServerWorld, background: boolean): Promise<string> {
  const { runId } = await mill.enqueue({ ...request, overrides: { background } });
  const stamped = story.map((body) => ({ ...body, ...(background && { background }) }));
  await new RunWriter(redis, keys, runId).emit(stamped, {
    fields: { status: 'completed', lastSequence: String(story.length + 1) },
  });
  return runId;
}

test.each<[EventProfile | undefined, boolean, readonly string[]]>([
  ['interactive', true, sentOnPurpose],
  ['interactive', false, everything],
  ['full', true, everything],
  [undefined, true, everything],
])('with the profile %s a run whose background is %s shows %j', async (profile, background, types) => {
  const world = await serverWorld();
  const runId = await endedRun(world, background);
  const options = profile && { profile };
  expect((await all(world.mill.events(runId, options))).map(({ type }) => type)).toEqual(types);
  const query = profile ? `?profile=${profile}` : '';
  const seen = await all(sse(`${world.url}/v1/runs/${runId}/events${query}`));
  expect(seen.map(({ type }) => type)).toEqual(types);
});

test('a dialect takes note of what it does not show', async () => {
  const world = await serverWorld();
  const runId = await endedRun(world, true);
  expect(await all(world.mill.events(runId, { dialect: 'afk', profile: 'interactive' }))).toEqual([]);
  const shown = await world.send('GET', `/v1/runs/${runId}/events?dialect=afk&profile=interactive`);
  expect([shown.status, shown.body]).toEqual([200, '']);
  const other = await endedRun(world, false);
  const whole = await all(world.mill.events(other, { dialect: 'afk' }));
  expect(await all(world.mill.events(other, { dialect: 'afk', profile: 'interactive' }))).toEqual(whole);
});

test('a profile that there is not is refused with the names of all', async () => {
  const world = await serverWorld();
  const runId = await endedRun(world, false);
  const answer = await world.send('GET', `/v1/runs/${runId}/events?profile=shy`);
  expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
  expect(answer.body.error.message).toContain('interactive');
  expect(() => world.mill.events(runId, { profile: 'shy' as EventProfile })).toThrow('full, interactive');
});
