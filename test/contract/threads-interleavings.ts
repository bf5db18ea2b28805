import { expect, test } from 'vitest';
import type { ThreadLock } from '../../src/shared/state/thread/lock.ts';
import { seeded } from '../support/seeded.ts';
import { answers, aRun, asks, enter, tenant, written, type MakeThreadsWorld } from './threads-world.ts';

export function threadsInterleavings(makeWorld: MakeThreadsWorld): void {
  test('whatever several workers do in whatever order, turns do not mix, none is lost, and they follow the wait queue', async () => {
    const random = seeded();
    const world = await makeWorld();
    const runs = Array.from({ length: 30 }, (_, i) => `run${i}`);
    const entered: string[] = [];
    const locks = new Map<string, ThreadLock[]>();
    const ended = new Set<string>();
    const notified: string[] = [];
    const replies: [is: string, wanted: string][] = [];
    for (let step = 0; ended.size < runs.length && step < 5_000; step++) {
      const current = entered.find((run) => !ended.has(run));
      const run = (random.below(2) === 0 && current) || (runs[random.below(runs.length)] ?? '');
      const roll = random.below(6);
      const own = locks.get(run) ?? [];
      if (roll === 0 && !ended.has(run)) {
        await Promise.all([enter(world, run), enter(world, run)]);
        if (!entered.includes(run)) entered.push(run);
      } else if (roll < 3 && entered.includes(run) && !ended.has(run)) {
        const acquired = await world.threads.acquire(aRun(run));
        if (acquired.kind === 'acquired') locks.set(run, [...own, { ...aRun(run), fence: acquired.fence }]);
      } else if (roll < 5 && own.length > 0) {
        // A worker that lost the thread goes on as if it had not.
        const some = own[random.below(own.length)] as ThreadLock;
        const reply = await world.threads.append(some, `op${step}`, [asks(run, 'hi'), answers(run, `${step}`)]);
        replies.push([reply.kind, some === own.at(-1) && !ended.has(run) ? 'ok' : 'fenced']);
      } else if (own.length > 0) {
        const { next } = await world.threads.leave(tenant, 't1', run);
        if (!ended.has(run) && next !== undefined) notified.push(next);
        ended.add(run);
      }
    }
    for (const [is, wanted] of replies) expect(is).toBe(wanted);
    expect(new Set(replies.map(([is]) => is)).size).toBe(2);
    expect(ended.size).toBe(runs.length);
    const first = entered.filter((run) => !notified.includes(run));
    expect(notified).toEqual(entered.filter((run) => notified.includes(run)));
    expect(first.length).toBeGreaterThan(0);
    const log = await written(world);
    const turns = log.map((line) => line.split(':')[0]).filter((run, i, all) => run !== all[i - 1]);
    expect(new Set(turns).size).toBe(turns.length);
    expect(turns).toEqual(entered.filter((run) => turns.includes(run)));
    for (const run of turns) expect(log.filter((line) => line === `${run}:user`)).toHaveLength(1);
    expect(await world.threads.get(tenant, 't1')).toMatchObject({ waiting: 0 });
  });
}
