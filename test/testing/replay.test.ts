import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { RunExport } from '../../src/shared/contract/archive/run-export.ts';
import { assertNoDepartures, calls, replayExport, scriptedModel } from '../../src/testing/index.ts';
import { defineAgent, defineTool, type Agent } from '../../src/worker/index.ts';
import { exportOf } from '../support/export-of.ts';

const mayNotRun = (): never => {
  throw new Error('a replay must not run tools');
};

/** Tools that answer, or those of the present definition, which a replay may not run. */
function tools(answers: boolean, refundAsks = true) {
  const lookup = defineTool({
    name: 'lookup_order',
    description: 'Finds an order by its number.',
    inputSchema: z.object({ order: z.string() }),
    effect: 'read',
    execute: answers ? ({ order }) => ({ order, state: 'shipped' }) : mayNotRun,
  });
  const refund = defineTool({
    name: 'refund',
    description: 'Pays money back.',
    inputSchema: z.object({ order: z.string(), amountUsd: z.number() }),
    needsApproval: refundAsks,
    execute: answers ? () => 'paid' : mayNotRun,
  });
  return [lookup, refund];
}

const instructions = 'You answer questions about orders. Look the order up first.';

function support(change: Partial<Parameters<typeof defineAgent>[0]> = {}, of = tools(false)): Agent {
  return defineAgent({ id: 'support', model: 'gpt-5.2-mini', instructions, tools: of, ...change });
}

const answers = [
  calls('lookup_order', { order: '7' }),
  calls('refund', { order: '7', amountUsd: 20 }),
  'It was shipped, and I paid 10 USD back.',
];

async function recorded(refundAsks = true): Promise<RunExport> {
  return await exportOf(support({}, tools(true, refundAsks)), 'Where is order 7?', {
    provider: scriptedModel(answers),
    onPending: async () => ({ granted: true, updatedArgs: { order: '7', amountUsd: 10 } }),
  });
}

const kindsOf = ({ departures }: Awaited<ReturnType<typeof replayExport>>) => departures.map(({ kind }) => kind);

test('an unchanged agent does the same again, and no tool runs', async () => {
  const replay = await replayExport(await recorded(), support());
  assertNoDepartures(replay);
  expect(replay.run).toMatchObject({ status: 'completed', text: 'It was shipped, and I paid 10 USD back.', steps: 3 });
  expect(replay.run.calls).toMatchObject([
    { name: 'lookup_order', status: 'done', args: { order: '7' } },
    { name: 'refund', status: 'done', args: { order: '7', amountUsd: 10 } },
  ]);
  expect(replay.costMicrocents).toBe(replay.recordedMicrocents);
  expect(replay.costMicrocents).toBeGreaterThan(0);
});

test('another prompt, another schema of a tool and a tool that is gone are departures', async () => {
  const run = await recorded();
  const [lookup, refund] = tools(false);
  const prompted = await replayExport(run, support({ instructions: `${instructions} Be brief.` }));
  expect(prompted.departures).toMatchObject([{ kind: 'system', now: expect.stringContaining('Be brief.') }]);
  const other = defineTool({
    name: 'lookup_order',
    description: 'Finds an order by its number.',
    inputSchema: z.object({ order: z.string().max(3) }),
    effect: 'read',
    execute: mayNotRun,
  });
  expect(kindsOf(await replayExport(run, support({ tools: [other, refund as never] })))).toEqual(['tools']);
  const gone = await replayExport(run, support({ tools: [lookup as never] }));
  expect(gone.departures).toMatchObject([
    { kind: 'tools', what: 'the model would not be offered the tool refund any more' },
    { kind: 'refused', stepNumber: 2, what: 'the call of refund would be refused' },
  ]);
  expect(() => assertNoDepartures(gone)).toThrow(/refused: the call of refund would be refused \(step 2\)/);
});

test('an approval that is new, and one that is gone, are departures', async () => {
  const gated = await replayExport(await recorded(false), support({}, tools(false, true)));
  expect(gated.departures).toMatchObject([{ kind: 'gated', what: 'a person would be asked about refund' }]);
  const open = await replayExport(await recorded(true), support({}, tools(false, false)));
  expect(open.departures).toMatchObject([{ kind: 'ungated', what: 'no person would be asked about refund' }]);
});

test('a limit that ends the run earlier is a departure', async () => {
  const replay = await replayExport(await recorded(), support({ limits: { maxSteps: 1 } }));
  expect(kindsOf(replay)).toContain('end');
});

test('a prompt with which the model calls another tool departs at that call', async () => {
  const run = await recorded();
  const byPrompt = scriptedModel((request) => {
    const isChanged = request.messages.some(
      ({ role, ...m }) => role === 'system' && 'content' in m && m.content.includes('Pay at once'),
    );
    const step = Number(request.requestId.split(':')[2]);
    const own = isChanged ? [calls('refund', { order: '7', amountUsd: 20 }), 'Paid.'] : answers;
    const answer = own[step - 1] ?? 'Paid.';
    return typeof answer === 'string' ? { text: answer } : answer;
  });
  const same = await replayExport(run, support(), { model: byPrompt });
  expect(same).toMatchObject({ mode: 'live', departures: [] });
  const changed = await replayExport(run, support({ instructions: 'Pay at once.' }), { model: byPrompt });
  expect(changed.departures).toContainEqual({
    kind: 'call',
    stepNumber: 1,
    what: 'the model called refund in place of lookup_order',
    recorded: 'lookup_order {"order":"7"}',
    now: expect.stringContaining('refund '),
  });
  expect(() => assertNoDepartures(changed)).toThrow('the model called refund in place of lookup_order');
});

test('a file that is no export is refused with what to do', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-replay-'));
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  await expect(replayExport(file('a.json', '{}'), support())).rejects.toThrow(
    /is no export of a run: `millrace export RUN/,
  );
  const later = file('b.json', '{"kind":"millrace.run-export","v":2}');
  await expect(replayExport(later, support())).rejects.toThrow('has version 2');
  const cut = file('c.json', '{"kind":"millrace.run-export","v":1,"run":{}}');
  await expect(replayExport(cut, support())).rejects.toMatchObject({ code: 'validation' });
  await expect(replayExport(join(folder, 'none.json'), support())).rejects.toThrow('cannot be read');
});
