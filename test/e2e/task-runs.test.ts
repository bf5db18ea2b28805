import { describe, expect, test } from 'vitest';
import { eventsOf, type Observed } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { millrace, settings } from '../producer/cli/support/cli-process.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';

const shared = shareWorld({ producer: true, env: { WORKER_CONCURRENCY: '1' } });

const act = (id: string, gate?: string) => ({ type: 'act', action: { id, ...(gate !== undefined && { gate }) } });
const buy = (id: string, gate?: string) => ({ type: 'act', action: { ...act(id, gate).action, costs: 100 } });
const ask = (question: string) => ({ type: 'ask', question });

const task = (...decisions: readonly object[]) => ({ adapter: 'errand', input: { decisions } });
const typesOf = ({ events }: Observed) => events.map(({ type }) => type).filter((type) => type.startsWith('task.'));
const did = (world: World, id: string) =>
  world.fleet.executions.filter((execution) => execution.tool === 'errand' && execution.id === id);

async function question(world: World, runId: string) {
  return await until('the task asks', async () => {
    const { status, pending } = await world.mill.get(runId);
    return status === 'suspended' ? pending.find(({ kind }) => kind === 'user_input') : undefined;
  });
}

describe('a task over the queue', () => {
  test('observes, decides, acts and ends, and is a run like any other', async () => {
    const { world } = shared;
    const submitted = await call('POST', `${world.url}/v1/runs`, {
      agent: 'errand',
      input: '',
      taskRun: { ...task(act('plain')), limits: { maxSteps: 3 } },
    });
    expect(submitted.status).toBe(202);
    const observed = await world.ended(submitted.body as { runId: string });
    const { view } = observed;
    expect(view).toMatchObject({
      agent: 'errand',
      status: 'completed',
      result: { text: 'the errand is done', output: { status: 'completed', taskId: view.runId, pass: true } },
    });
    expect(view.result?.output).toMatchObject({ steps: [{ outcome: { ok: true, result: { did: 'plain' } } }] });
    expect(typesOf(observed)).toEqual([
      'task.start',
      'task.readiness',
      'task.observe',
      'task.validate',
      'task.decide',
      'task.act',
      'task.observe',
      'task.validate',
      'task.step',
      'task.decide',
      'task.end',
    ]);
    expect(eventsOf(observed, 'run.started')).toMatchObject([{ kind: 'task' }]);
  });

  test('that asks is answered after its worker died, and goes on', async () => {
    const world = await makeWorld({ workers: 1 });
    const run = await world.mill.task(task(act('first'), ask('Which way?'), act('second')));
    const asked = await question(world, run.runId);
    expect(asked).toMatchObject({ reason: 'Which way?' });
    expect(await world.mill.approvals()).toMatchObject({ approvals: [{ runId: run.runId }] });
    const [before] = world.workers;
    before?.signal('SIGKILL');
    await run.answer(asked.toolCallId ?? '', 'left');
    await world.addWorker();
    const observed = await world.ended(run);
    expect(observed.view.result?.output).toMatchObject({
      status: 'completed',
      steps: [
        { outcome: { result: { did: 'first' } } },
        { outcome: { result: 'left' } },
        { decision: { type: 'act' } },
      ],
    });
    expect(typesOf(observed).filter((type) => type === 'task.step')).toHaveLength(3);
    expect(eventsOf(observed, 'task.start')).toMatchObject([{}, { resumed: true }]);
    expect([did(world, 'first').length, did(world, 'second').length]).toEqual([1, 1]);
  });

  test('whose worker is killed within an action does it again under the same key, and nothing else', async () => {
    const world = await makeWorld({ workers: 1 });
    const run = await world.mill.task(task(act('done'), act('cut off', 'open')));
    await until('the second action', () => did(world, 'cut off').length === 1);
    let decided = 0;
    for await (const { type } of run.events()) if (type === 'task.decide' && ++decided === 2) break;
    expect(decided, 'what it decided is emitted before it is done').toBe(2);
    world.worker.signal('SIGKILL');
    await world.addWorker();
    await until('it is made again', () => did(world, 'cut off').length === 2);
    world.fleet.openGate('open');
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({ status: 'completed', recoveries: 1 });
    expect(did(world, 'done')).toHaveLength(1);
    expect(new Set(did(world, 'cut off').map(({ key }) => key)).size).toBe(1);
    const types = typesOf(observed);
    expect(types.filter((type) => type === 'task.step')).toHaveLength(2);
    expect(types.filter((type) => type === 'task.decide')).toHaveLength(3);
  });

  test('is handed over by a draining worker, and cancelled within its action', async () => {
    const world = await makeWorld({ workers: 1, env: { SHUTDOWN_GRACE_MS: '300' } });
    const run = await world.mill.task(task(act('long', 'never')));
    await until('it acts', () => did(world, 'long').length === 1);
    const [first] = world.workers;
    await world.addWorker();
    first?.signal('SIGTERM');
    await until('it acts elsewhere', () => did(world, 'long').length === 2);
    await run.cancel();
    const observed = await world.ended(run);
    expect(observed.view.status).toBe('cancelled');
    expect(typesOf(observed)).toEqual(['task.start', 'task.readiness', 'task.observe', 'task.validate', 'task.decide']);
  });

  test('whose adapter charges does nothing that the cap of its batch has no room for, and waits for more', async () => {
    const { world } = shared;
    const { budgets } = world.mill;
    await budgets.set('batch', 'errands', { maxCostMicrocents: 250, onExceed: 'pause_for_approval' });
    const run = await world.mill.task(task(buy('one'), buy('two'), buy('three')), { batch: 'errands' });
    const waiting = await until('it waits for money', async () => {
      const { status, pending } = await world.mill.get(run.runId);
      return status === 'suspended' ? pending : undefined;
    });
    expect(waiting).toMatchObject([{ kind: 'budget', id: 'batch:errands' }]);
    const spent = async () => await budgets.get('batch', 'errands');
    expect(await spent()).toMatchObject({ spentMicrocents: 200, reservedMicrocents: 0 });
    expect(['one', 'two', 'three'].map((id) => did(world, id).length)).toEqual([1, 1, 0]);
    await budgets.topUp('batch', 'errands', { microcents: 50 });
    await until('it buys the third, and has no money to go on', () => did(world, 'three').length === 1);
    await budgets.topUp('batch', 'errands', { microcents: 100 });
    expect((await world.ended(run)).view).toMatchObject({
      status: 'completed',
      costMicrocents: 300,
      ledger: { status: 'completed', costMicrocents: 300, llmCalls: 3 },
    });
    expect(await spent()).toMatchObject({ spentMicrocents: 300, unconfirmedMicrocents: 0, reservedMicrocents: 0 });
  });

  test('whose worker is killed within an action that was charged may have paid twice, and its batch counts that', async () => {
    const world = await makeWorld({ workers: 1 });
    const { budgets } = world.mill;
    await budgets.set('batch', 'errands', { maxCostMicrocents: 250 });
    const run = await world.mill.task(task(buy('done'), buy('cut off', 'open'), buy('never')), { batch: 'errands' });
    await until('the second action', () => did(world, 'cut off').length === 1);
    world.worker.signal('SIGKILL');
    await world.addWorker();
    const observed = await world.ended(run);
    expect(observed.view).toMatchObject({
      status: 'failed',
      error: { code: 'budget_exceeded', details: { scope: 'batch', id: 'errands' } },
      costMicrocents: 100,
    });
    expect(['done', 'cut off', 'never'].map((id) => did(world, id).length)).toEqual([1, 1, 0]);
    const account = await budgets.get('batch', 'errands');
    expect(account).toMatchObject({ spentMicrocents: 200, unconfirmedMicrocents: 100, reservedMicrocents: 0 });
  });

  test('fails where no worker has its adapter, and is blocked where something has to be known first', async () => {
    const { world } = shared;
    const unknown = await world.ended(await world.mill.task({ adapter: 'absent' }));
    expect(unknown.view).toMatchObject({
      status: 'failed',
      error: { code: 'validation', message: 'this worker has no task adapter absent' },
    });
    const requirements = [{ id: 'address', description: 'Where it goes' }];
    const blocked = await world.ended(await world.mill.task({ ...task(act('never')), requirements }));
    expect(blocked.view).toMatchObject({ status: 'blocked', result: { output: { missing: ['address'] } } });
    expect(did(world, 'never')).toEqual([]);
  });

  test('is reached from the command line, which fails where the task does not pass', async () => {
    const env = settings(shared.world.fleet.prefix);
    const input = (...decisions: object[]) => ['--input', JSON.stringify({ decisions })];
    const passed = await millrace(['task', 'errand', ...input(act('from afar'))], { env });
    expect(passed).toMatchObject({ code: 0, stdout: 'the errand is done\n' });
    expect(passed.stderr).toContain('task completed: the errand is done');
    const failed = await millrace(['task', 'errand', ...input({ type: 'stop', reason: 'no', pass: false })], { env });
    expect(failed).toMatchObject({ code: 1, stdout: 'no\n' });
  });
});
