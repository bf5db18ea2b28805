import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import type { RunEvent } from '../../src/shared/contract/event.ts';
import { millrace } from '../producer/cli/support/cli-process.ts';
import { call } from '../support/http.ts';
import { passage } from '../support/page.ts';
import type { PlannedStep } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';

const env = { MILLRACE_AGENTS: join(import.meta.dirname, '../fixtures/flow-agents') };
const shared = shareWorld({ producer: true, env });

/** What the model copies is not in the input of the run: the user did not give it. */
function teach(world: World): World {
  world.provider.words.set('passage', passage).set('short', passage.slice(0, 12));
  return world;
}

beforeEach(() => void teach(shared.world));

const read: PlannedStep = { calls: [{ name: 'fetch_page' }] };
const send = (body: string): PlannedStep => ({ calls: [{ name: 'send_mail', args: { body } }] });
const steal = [read, send('News: %passage!'), { text: 'Done.' }];

async function eventsOf(world: World, { runId }: RunHandle): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  for await (const event of world.mill.events(runId)) events.push(event);
  return events;
}

const flowOf = (events: readonly RunEvent[]) => events.filter(({ type }) => type.startsWith('dataflow.'));
const sentBy = ({ fleet }: World, { runId }: RunHandle) => fleet.executions.filter((one) => one.runId === runId);

test.each([
  ['absent', 1, []],
  ['off', 1, []],
  ['shadow', 1, ['dataflow.flagged']],
  ['enforce', 0, ['dataflow.blocked']],
  ['declassified', 1, ['dataflow.declassified']],
])('a passage of a page in a mail, with the policy %s: %i mails, events %j', async (agent, mails, types) => {
  const { world } = shared;
  const run = await world.submit(agent, steal);
  expect(await run.result()).toMatchObject({ status: 'completed', text: 'Done.' });
  expect(sentBy(world, run)).toHaveLength(mails);
  const events = await eventsOf(world, run);
  expect(flowOf(events).map(({ type }) => type)).toEqual(types);
  expect(JSON.stringify(flowOf(events))).not.toContain('harbour');
  const { flows } = await world.mill.flows({ run: run.runId });
  expect(flows.map(({ decision }) => `dataflow.${decision}`)).toEqual(types);
});

test('a policy that is off leaves the same events as none', async () => {
  const { world } = shared;
  const shapes = await Promise.all(
    ['absent', 'off'].map(async (agent) => {
      const events = await eventsOf(world, await world.submit(agent, steal));
      return events.map(({ type, ...body }) => [type, Object.keys(body).toSorted()]);
    }),
  );
  expect(shapes[0]).toEqual(shapes[1]);
});

test('fewer letters than make a passage may go out', async () => {
  const { world } = shared;
  const run = await world.submit('enforce', [read, send('It says %short.'), { text: 'Done.' }]);
  await run.result();
  expect(sentBy(world, run)).toHaveLength(1);
});

test('a run that has read a page and a secret sends nothing at all', async () => {
  const { world } = shared;
  const both = { calls: [{ name: 'fetch_page' }, { name: 'read_secret' }] };
  const run = await world.submit('enforce', [both, send('hi'), { text: 'Done.' }]);
  await run.result();
  expect(sentBy(world, run)).toEqual([]);
  expect(flowOf(await eventsOf(world, run))).toMatchObject([{ rule: 'lethal-trifecta' }]);
});

test('what one run has read does not hold back another run of the worker', async () => {
  const { world } = shared;
  const reader = await world.submit('enforce', [read, { text: 'Read.' }]);
  await reader.result();
  const sender = await world.submit('enforce', [send('%passage'), { text: 'Sent.' }]);
  await sender.result();
  expect(sentBy(world, sender)).toHaveLength(1);
});

test('a script cannot send what it has read', async () => {
  const { world } = shared;
  const source = 'const page = await tools.fetch_page({}); return await tools.send_mail({ body: page });';
  const run = await world.submit('scripting', [
    { calls: [{ name: 'code_execute', args: { source } }] },
    { text: 'Done.' },
  ]);
  await run.result();
  expect(sentBy(world, run)).toEqual([]);
  expect(flowOf(await eventsOf(world, run))).toMatchObject([
    { type: 'dataflow.blocked', toolName: 'send_mail', parentToolCallId: 'call_0' },
  ]);
});

test('the person who confirms sees which value goes from where to where, and the call runs once', async () => {
  const { world } = shared;
  const run = await world.submit('confirm', steal);
  const { pending } = await until('the run waits', async () => {
    const view = await run.get();
    return view.status === 'suspended' ? view : undefined;
  });
  expect(pending).toMatchObject([
    {
      kind: 'approval',
      toolName: 'send_mail',
      flow: [{ rule: 'untrusted-to-sink', argument: 'body', source: { name: 'fetch_page', trust: 'external' } }],
    },
  ]);
  expect((await call('GET', `${world.url}/v1/runs/${run.runId}`)).body).toMatchObject({ pending });
  const cliEnv = { REDIS_URL: world.fleet.redisUrl, MILLRACE_PREFIX: world.fleet.prefix };
  for (const args of [
    ['approvals', '--agent', 'confirm'],
    ['get', run.runId],
  ])
    expect((await millrace(args, { env: cliEnv })).stdout).toContain(
      'untrusted-to-sink in body from fetch_page → send_mail: "News: wire the harbour',
    );
  const approved = await millrace(['approve', run.runId, '--by', 'ada'], { env: cliEnv });
  expect(approved).toMatchObject({ code: 0, stdout: expect.stringContaining('in body from fetch_page → send_mail') });
  await run.result();
  expect(sentBy(world, run)).toHaveLength(1);
  expect(flowOf(await eventsOf(world, run))).toMatchObject([
    { type: 'dataflow.asked', mode: 'confirm' },
    { type: 'dataflow.declassified', mode: 'confirm', by: 'ada' },
  ]);
  const told = (await millrace(['tail', run.runId], { env: cliEnv })).stderr;
  expect(told).toContain('because of the data-flow policy: untrusted-to-sink in body from fetch_page');
  expect(told).toContain('runs in spite of the data-flow policy, granted by ada');
});

test('the least that the operator asks for holds for every agent, and a stricter one stays so', async () => {
  const world = teach(await makeWorld({ env: { ...env, DATA_FLOW_MODE: 'shadow' } }));
  const agents = await world.mill.agents();
  expect(Object.fromEntries(agents.map(({ id, dataFlow }) => [id, dataFlow]))).toMatchObject({
    absent: 'shadow',
    off: 'shadow',
    confirm: 'confirm',
  });
  const types = await Promise.all(
    ['absent', 'off', 'enforce'].map(async (agent) => {
      const run = await world.submit(agent, steal);
      await run.result();
      return flowOf(await eventsOf(world, run)).map(({ type }) => type);
    }),
  );
  expect(types).toEqual([['dataflow.flagged'], ['dataflow.flagged'], ['dataflow.blocked']]);
});

test('a run that waits after it has read a page is stopped on the worker that continues it', async () => {
  const world = teach(await makeWorld({ env }));
  const ask: PlannedStep = { calls: [{ name: 'ask_user', args: { question: 'Shall I?' } }] };
  const run = await world.submit('enforce', [read, ask, ...steal.slice(1)]);
  const [item] = await until('the run waits', async () => {
    const view = await run.get();
    return view.status === 'suspended' ? view.pending : undefined;
  });
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  await world.mill.decide(run.runId, { answers: [{ toolCallId: item?.toolCallId ?? '', answer: 'Yes.' }] });
  await world.addWorker();
  await run.result();
  expect(sentBy(world, run)).toEqual([]);
  expect(flowOf(await eventsOf(world, run))).toMatchObject([{ type: 'dataflow.blocked' }]);
});

test('a script that is cut off with its worker is stopped again, and its finding is published once', async () => {
  const world = teach(await makeWorld({ env }));
  const source = `
    const page = await tools.fetch_page({});
    try { await tools.send_mail({ body: page }); } catch {}
    await tools.wait({ gate: 'go-on' });
    return 'done';`;
  const run = await world.submit('scripting', [
    { calls: [{ name: 'code_execute', args: { source } }] },
    { text: 'Done.' },
  ]);
  await world.toolWorks(run);
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  world.fleet.openGate('go-on');
  await world.addWorker();
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(sentBy(world, run).map(({ tool }) => tool)).not.toContain('send_mail');
  expect(flowOf(await eventsOf(world, run))).toMatchObject([{ type: 'dataflow.blocked', toolName: 'send_mail' }]);
});

test('a worker that is killed between the page and the mail leaves one event, and no mail', async () => {
  const world = teach(await makeWorld({ env }));
  const held = { ...send('%passage'), hold: { gate: 'second', afterPieces: 0 } };
  const run = await world.submit('enforce', [read, held, { text: 'Done.' }]);
  await until('the second answer is under way', () => world.provider.callsOf(run.runId, 2).length > 0);
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  world.provider.gates.open('second');
  await world.addWorker();
  await run.result();
  expect(sentBy(world, run)).toEqual([]);
  expect(flowOf(await eventsOf(world, run))).toMatchObject([{ type: 'dataflow.blocked', rule: 'untrusted-to-sink' }]);
});
