import { expect, test } from 'vitest';
import type { RunRequestInput, RunView } from '../../src/producer/index.ts';
import { isTerminalStatus } from '../../src/shared/contract/run.ts';
import { checkRun, observe } from '../support/check-run.ts';
import { injectFaults, makeFragileWorld } from '../support/fault-injection.ts';
import { checkNothingLeft } from '../support/leftovers.ts';
import { decideUntil, everyRun, stopAfter } from '../support/people.ts';
import { planInput, type PlannedCall, type PlannedStep } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { seeded } from '../support/seeded.ts';
import { clientDoor, httpDoor, take } from '../support/talk.ts';
import type { World } from '../support/world.ts';

const families = 40;
const budget = { maxCostUsd: 1 };

type Random = ReturnType<typeof seeded>;

test('agents work together through lost workers, lost connections and a lost Redis', async () => {
  const random = seeded();
  const { world, proxy, redis } = await makeFragileWorld();
  const done = new AbortController();
  const people = decideUntil(done.signal, world.mill, random);
  const doors = [clientDoor(world.fleet.client()), httpDoor(world.url)] as const;
  const asking = Promise.all(
    Array.from({ length: families }, async (_, n) => {
      await new Promise((resolve) => setTimeout(resolve, random.below(10_000)));
      const request = { ...requestFor(`f${n}`, random), executionId: `f${n}` };
      const { runId = '' } = await take(doors[n % 2] as (typeof doors)[0], request);
      if (random.below(4) === 0) void stopAfter(random.below(4_000), world.mill, runId);
      return runId;
    }),
  );
  asking.catch(() => {});
  await injectFaults(world, { random, proxy, redis, rounds: 12, everyMs: 1_500 });
  const roots = await asking;

  const runs = await allEnded(world);
  done.abort();
  await people;
  expect(
    roots.filter((id) => !runs.some(({ runId }) => runId === id)),
    'nothing that was accepted is lost',
  ).toEqual([]);
  for (const { runId } of runs) checkRun(await observe(world.mill, runId, () => world.fleet.executions));
  for (const run of runs) checkFamily(run, runs);
  const charges = world.fleet.executions.filter(({ tool }) => tool === 'charge').map(({ id }) => id);
  expect(charges, 'nothing that takes effect was done twice').toEqual([...new Set(charges)]);
  await checkNothingLeft(world, await testRedis('work', redis.url));
}, 300_000);

/** Whatever a run asks for, each of those that do it works a little, and may be what goes wrong. */
function requestFor(name: string, random: Random): RunRequestInput {
  switch (random.below(4)) {
    case 0: {
      const children = Array.from({ length: 6 }, (_, n) => childFor(`${name}-${n}`, random));
      return { agent: 'plain', input: '', budget, fanOut: { children, mergeStrategy: { kind: 'first-success' } } };
    }
    case 1: {
      const children = Array.from({ length: 6 }, (_, n) => childFor(`${name}-${n}`, random));
      const mergeStrategy = { kind: 'concat', separator: '|', includeFailures: true } as const;
      return { agent: 'plain', input: '', budget, fanOut: { children, mergeStrategy, maxConcurrentChildren: 3 } };
    }
    case 2: {
      const handoff = { name: 'transfer_to_gated', args: { reason: 'it knows better' } };
      const charge = { name: 'charge', args: { id: `${name}-charge` } };
      const look = { name: 'look', args: { id: `${name}-look` } };
      return {
        agent: 'receptionist',
        budget,
        input: planInput({ calls: [look, handoff] }, { calls: [charge] }, last(name)),
      };
    }
    default:
      return { agent: 'asker', budget, input: planInput(...asking(name, 1, random)) };
  }
}

function childFor(id: string, random: Random) {
  const { agent, plan } = workFor(id, random);
  return { agent, id, input: planInput(...plan) };
}

/** Asks one or two others, each of which may ask again. */
function asking(name: string, depth: number, random: Random): PlannedStep[] {
  const calls = Array.from({ length: 1 + random.below(2) }, (_, n): PlannedCall => {
    const id = `${name}-${n}`;
    const deeper = depth < 3 && random.below(3) > 0;
    const { agent, plan } = deeper ? { agent: 'asker', plan: asking(id, depth + 1, random) } : workFor(id, random);
    return { name: 'ask_agent', args: { agent, message: planInput(...plan) } };
  });
  return [{ text: 'I ask. ', calls }, last(name)];
}

function workFor(id: string, random: Random): { agent: string; plan: PlannedStep[] } {
  const charge = { calls: [{ name: 'charge', args: { id } }] };
  const paceMs = random.below(120);
  switch (random.below(6)) {
    case 0:
      return { agent: 'plain', plan: [{ text: 'no', faults: [{ kind: 'status', status: 401 }] }] };
    case 1:
      return { agent: 'gated', plan: [charge, last(id)] };
    case 2:
    case 3:
      return { agent: 'hands', plan: [{ ...charge, text: 'I pay. ', paceMs }, last(id)] };
    default:
      return { agent: 'plain', plan: [{ text: `a b c d e f ${id} (%call)`, paceMs }] };
  }
}

function last(name: string): PlannedStep {
  return { text: `That was ${name} (%call).`, paceMs: 20 };
}

async function allEnded(world: World): Promise<readonly RunView[]> {
  let runs: readonly RunView[] = [];
  const open = () => runs.filter(({ status }) => !isTerminalStatus(status));
  const ended = until(
    'all runs have ended',
    async () => {
      runs = await everyRun(world.mill);
      return open().length === 0;
    },
    150_000,
  );
  await ended.catch((cause: unknown) => {
    const named = open().map((run) => `${run.runId} ${run.agent} ${run.status} ${JSON.stringify(run.pending)}`);
    throw new Error(`still open:\n${named.join('\n')}`, { cause });
  });
  return runs;
}

/** A run costs what it paid itself, and what its children cost; no child outlives it. */
function checkFamily(run: RunView, runs: readonly RunView[]): void {
  const { runId, attempts, costMicrocents, childCostMicrocents = 0, endedAt = '', status, error } = run;
  const children = runs.filter(({ parentRunId }) => parentRunId === runId);
  const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);
  const name = `${run.agent} run ${runId} (${status}, ${run.executionId ?? `depth ${run.depth}`})`;
  expect(childCostMicrocents, `children of ${name}`).toBe(sum(children.map((child) => child.costMicrocents)));
  expect(costMicrocents, `cost of ${name}`).toBe(childCostMicrocents + sum(attempts.map((a) => a.costMicrocents)));
  for (const child of children)
    expect(child.endedAt && child.endedAt <= endedAt, `${child.runId} under ${name}`).toBe(true);
  const isOfChild = run.executionId === undefined && error?.code === 'provider_auth';
  expect(['completed', 'cancelled', ...(isOfChild ? ['failed'] : [])], `${name}: ${JSON.stringify(error)}`).toContain(
    status,
  );
}
