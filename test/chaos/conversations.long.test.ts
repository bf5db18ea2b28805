import { expect, test } from 'vitest';
import type { RunRequestInput, RunView } from '../../src/producer/index.ts';
import { isTerminalStatus } from '../../src/shared/contract/run.ts';
import { checkRun, observe } from '../support/check-run.ts';
import { checkThread, seeThread } from '../support/check-thread.ts';
import { injectFaults, makeFragileWorld } from '../support/fault-injection.ts';
import { checkNothingLeft } from '../support/leftovers.ts';
import { decideUntil, everyRun, stopAfter } from '../support/people.ts';
import { planInput, type PlannedStep } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { seeded } from '../support/seeded.ts';
import { clientDoor, httpDoor, send, type Door, type Sent } from '../support/talk.ts';
import type { World } from '../support/world.ts';

const threads = 20;
const messages = 8;
const agents = ['hands', 'gated', 'rambling'] as const;
const agentOf = (thread: number) => agents[thread % agents.length] as string;

type Random = ReturnType<typeof seeded>;

test('conversations go on through lost workers, lost connections and a lost Redis', async () => {
  const random = seeded();
  const { world, proxy, redis } = await makeFragileWorld();
  const done = new AbortController();
  const people = decideUntil(done.signal, world.mill, random);
  const doors = [clientDoor(world.fleet.client()), httpDoor(world.url)];
  const talking = Promise.all(
    Array.from({ length: threads }).flatMap((_, thread) =>
      doors.map((door, who) => talk(world, door, thread, who, random)),
    ),
  ).then((all) => all.flat());
  talking.catch(() => {});
  await injectFaults(world, { random, proxy, redis, rounds: 12, everyMs: 1_500 });
  const sent = await talking;
  expect(sent).toHaveLength(threads * messages);

  const runs = await quiet(world);
  done.abort();
  await people;
  for (const { runId } of runs) checkRun(await observe(world.mill, runId, () => world.fleet.executions));
  checkEnds(runs);
  const charges = world.fleet.executions.filter(({ tool }) => tool === 'charge').map(({ key }) => key);
  expect(charges, 'no call that takes effect was made twice').toEqual([...new Set(charges)]);
  for (let n = 0; n < threads; n++) {
    const seen = await seeThread(world.mill, `t${n}`, runs);
    checkThread(
      seen,
      sent.filter(({ thread }) => thread === `t${n}`),
    );
  }
  expect(world.provider.summaries, 'some were long').toBeGreaterThan(0);
  await checkNothingLeft(world, await testRedis('work', redis.url));
  await Promise.all(Array.from({ length: threads }, (_, n) => afterwards(world, n)));
}, 300_000);

/** One of the producers of a thread, which sends half of its messages, each once the one before was taken. */
async function talk(world: World, door: Door, thread: number, who: number, random: Random): Promise<Sent[]> {
  const sent: Sent[] = [];
  for (let n = 0; n < messages / 2; n++) {
    await new Promise((resolve) => setTimeout(resolve, random.below(3_000)));
    const name = `t${thread}-p${who}-${n}`;
    const input = planInput(...planFor(name, agentOf(thread), random));
    const onBusy = policy(random);
    const message = await send(door, agentOf(thread), { thread: `t${thread}`, onBusy, executionId: name, input });
    sent.push(message);
    if (message.runId !== undefined && random.below(10) === 0)
      void stopAfter(random.below(1_500), world.mill, message.runId);
  }
  return sent;
}

function policy(random: Random): NonNullable<RunRequestInput['onBusy']> {
  const at = random.below(20);
  if (at < 12) return 'queue';
  return (['steer', 'steer', 'steer', 'interrupt', 'interrupt', 'rollback', 'rollback', 'reject'] as const)[
    at - 12
  ] as 'steer';
}

function planFor(name: string, agent: string, random: Random): PlannedStep[] {
  const filler = agent === 'rambling' ? ' and so on'.repeat(180) : '';
  const answer = { text: `This answers ${name} (%call).${filler}`, pieces: 6, paceMs: random.below(60) };
  const calls = ['charge', 'put', 'look'].flatMap((tool) =>
    random.below(2) === 0 ? [{ name: tool, args: { id: `${name}-${tool}` } }] : [],
  );
  const look = { calls: [{ name: 'look', args: { id: `${name}-again` } }] };
  switch (random.below(6)) {
    case 0:
    case 1:
      return calls.length > 0 ? [{ text: 'Let me see. ', calls }, answer] : [answer];
    case 2:
      return calls.length > 0 ? [look, { calls }, answer] : [look, answer];
    case 3:
      return random.below(3) === 0 ? [{ text: `no ${name}`, faults: [{ kind: 'status', status: 401 }] }] : [answer];
    default:
      return [answer];
  }
}

/** All runs, once they have ended and no thread is locked. */
async function quiet(world: World): Promise<readonly RunView[]> {
  return await until(
    'all runs have ended',
    async () => {
      const runs = await everyRun(world.mill);
      if (!runs.every(({ status }) => isTerminalStatus(status))) return undefined;
      const all = await Promise.all(Array.from({ length: threads }, (_, n) => world.mill.threads.get(`t${n}`)));
      return all.every(({ lockOwner, waiting }) => lockOwner === undefined && waiting === 0) ? runs : undefined;
    },
    150_000,
  ).catch(async (error: unknown) => {
    const open = (await everyRun(world.mill)).filter(({ status }) => !isTerminalStatus(status));
    throw new Error(`still open: ${open.map((run) => `${run.runId} ${run.thread} ${run.status}`).join(', ')}`, {
      cause: error,
    });
  });
}

/** Only what was planned to fail failed, and only what was asked to stop was stopped. */
function checkEnds(runs: readonly RunView[]): void {
  const odd = runs.filter(({ status, error }) => {
    if (status === 'completed' || status === 'cancelled') return false;
    return status !== 'failed' || error?.code !== 'provider_auth';
  });
  expect(odd.map(({ runId, status, error }) => [runId, status, error])).toEqual([]);
}

async function afterwards(world: World, n: number): Promise<void> {
  const run = await world.submit(agentOf(n), [{ text: 'still here' }], { thread: `t${n}` });
  expect(await run.result()).toMatchObject({ status: 'completed', text: 'still here' });
}
