import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { until } from '../support/redis.ts';
import { makeWorld, shareWorld } from '../support/world.ts';

const shared = shareWorld();

const script = (source: string) => ({ calls: [{ name: 'code_execute', args: { source } }] });

test('ten large results cost the context one number', async () => {
  const { world } = shared;
  const source = `
    let sum = 0;
    for (let i = 0; i < 10; i++) sum += (await tools.dump({ bytes: 200000 })).length;
    return sum;`;
  const run = await world.submit('scripting', [script(source), { text: 'Counted.' }]);
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  const [, second] = world.provider.callsOf(run.runId);
  const result = second?.messages.find(({ role }) => role === 'tool')?.content;
  expect(Number(result)).toBeGreaterThan(1_000_000);
  expect(String(result).length).toBeLessThan(10);
  const inner = eventsOf(observed, 'tool.execute.start').filter(({ toolName }) => toolName === 'dump');
  expect(inner).toHaveLength(10);
  expect(new Set(inner.map(({ parentToolCallId }) => parentToolCallId)).size).toBe(1);
});

test('a script that is cut off with its worker pays no order twice', async () => {
  const world = await makeWorld();
  const source = `
    await tools.charge({ id: 'first' });
    await tools.look({ id: 'seen', gate: 'go-on' });
    await tools.charge({ id: 'second' });
    return 'paid';`;
  const run = await world.submit('scripting', [script(source), { text: 'Done.' }]);
  await until('the script waits at its gate', () => world.fleet.executions.some(({ id }) => id === 'seen'));
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  world.fleet.openGate('go-on');
  await world.addWorker();
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  const paid = observed.executions.filter(({ tool }) => tool === 'charge').map(({ id }) => id);
  expect(paid).toEqual(['first', 'second']);
});

test('the model calls what people decide about by itself, and the run outlasts the death of its worker', async () => {
  const world = await makeWorld();
  const attempt = `
    const kinds = [];
    for (const name of ['charge', 'put', 'ask_user'])
      try { await tools[name]({ id: 'x', question: 'May I?' }); } catch (error) { kinds.push(error.kind); }
    return kinds.join();`;
  const run = await world.submit('scripting-gated', [
    script(attempt),
    {
      calls: [
        { name: 'charge', args: { id: 'c' } },
        { name: 'put', args: { id: 'p', gate: 'go-on' } },
        { name: 'ask_user', args: { question: 'May I?' } },
      ],
    },
    { text: 'Paid.' },
  ]);
  await until('the run waits for people', async () => (await run.get()).status === 'suspended');
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  const { pending } = await run.get();
  expect(pending.map(({ kind, toolName }) => [kind, toolName])).toEqual([
    ['approval', 'charge'],
    ['approval', 'put'],
    ['user_input', 'ask_user'],
  ]);
  const [charge, put, question] = pending.map(({ toolCallId }) => toolCallId);
  await world.addWorker();
  await run.approve({ calls: [charge ?? '', put ?? ''] });
  await run.answer(question ?? '', 'Yes.');
  await until('the granted call waits at its gate', () => world.fleet.executions.some(({ id }) => id === 'p'));
  const [, second] = world.workers;
  second?.signal('SIGKILL');
  await second?.exited;
  world.fleet.openGate('go-on');
  await world.addWorker();
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'Paid.' } });
  expect(observed.executions.filter(({ tool }) => tool === 'charge').map(({ id }) => id)).toEqual(['c']);
  const [first, after] = world.provider.callsOf(run.runId);
  expect(first?.tools).toEqual(['charge', 'ask_user', 'code_execute', 'code_search']);
  expect(after?.tools).toEqual(['charge', 'ask_user', 'code_execute', 'code_search', 'put']);
  const answers = after?.messages.filter(({ role }) => role === 'tool').map(({ content }) => content);
  expect(answers).toEqual(['approval_denied,approval_denied,approval_denied']);
});

test.each([
  ['walks up to its constructor', `return this.constructor.constructor('return process')().env`],
  ['imports', `return await import('node:fs')`],
  ['never ends', `while (true) {}`],
  ['takes all memory', `const a = []; while (true) a.push(new ArrayBuffer(1e6));`],
  ['calls too often', `for (let i = 0; i < 65; i++) await tools.look({ id: String(i) }); return 'all'`],
  ['floods', `for (let i = 0; i < 1e6; i++) tools.look({ id: 'x' }); return 'sent'`],
])('a script that %s is an error to the model, and the worker goes on', async (_what, source) => {
  const { world } = shared;
  const run = await world.submit('scripting', [script(source), { text: 'It failed.' }]);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'It failed.' } });
  expect(eventsOf(observed, 'tool.execute.error').filter(({ toolName }) => toolName === 'code_execute')).toHaveLength(
    1,
  );
  const after = await world.submit('scripting', [script('return 1 + 1'), { text: 'Two.' }]);
  expect((await world.ended(after)).view.status).toBe('completed');
});
