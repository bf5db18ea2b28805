import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-policies-'));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(
  join(folder, 'policies.yaml'),
  `rules:
  - { ruleId: no-putting, action: deny, condition: { toolName: put }, reason: nothing is put here }
  - { ruleId: bank-first, action: defer, condition: { toolName: charge, contextEquals: { id: big } } }
  - { ruleId: only-mine, action: allow, condition: { pattern: 'lo*' }, updatedToolArgs: { id: mine } }
  - { ruleId: no-models, action: deny, subjects: [llm_call], condition: { metadataEquals: { team: none } }, reason: no budget }
`,
);
const shared = shareWorld({ env: { MILLRACE_POLICIES: join(folder, 'policies.yaml') } });

test('a rule that denies ends the run before anything of the step happens', async () => {
  const { world } = shared;
  const run = await world.submit('ruled', [
    {
      calls: [
        { name: 'charge', args: { id: 'small' } },
        { name: 'put', args: { id: 'p' } },
      ],
    },
  ]);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'failed', error: { code: 'tool_denied', retryable: false } });
  expect(observed.view.error?.message).toContain('nothing is put here');
  expect(observed.executions).toEqual([]);
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([
    { action: 'deny', ruleId: 'no-putting', toolName: 'put', reason: 'nothing is put here' },
  ]);
  expect(world.provider.callsOf(run.runId)).toHaveLength(1);
});

test('a rule that defers leaves the call to somebody outside', async () => {
  const { world } = shared;
  const run = await world.submit('ruled', [{ calls: [{ name: 'charge', args: { id: 'big' } }] }, { text: 'Done.' }]);
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  const [item] = (await run.get()).pending;
  expect(item).toMatchObject({ kind: 'approval', mode: 'deferred', toolName: 'charge' });
  await run.answer(item?.id ?? '', 'the bank has done it');
  const observed = await world.ended(run);
  expect(observed.executions).toEqual([]);
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([{ action: 'defer', ruleId: 'bank-first' }]);
  expect(JSON.stringify(world.provider.callsOf(run.runId).at(-1)?.messages)).toContain('the bank has done it');
});

test('a rule rewrites the arguments of a call', async () => {
  const { world } = shared;
  const run = await world.submit('ruled', [{ calls: [{ name: 'look', args: { id: 'yours' } }] }, { text: 'Seen.' }]);
  const observed = await world.ended(run);
  expect(observed.executions.map(({ tool, id }) => [tool, id])).toEqual([['look', 'mine']]);
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([{ action: 'allow', ruleId: 'only-mine' }]);
});

test('a rule about model calls keeps them from being made', async () => {
  const { world } = shared;
  const run = await world.submit('ruled', [{ text: 'Never said.' }], { metadata: { team: 'none' } });
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'failed', error: { code: 'policy_denied', message: 'no budget' } });
  expect(eventsOf(observed, 'policy.decision')).toMatchObject([{ subject: 'llm_call', ruleId: 'no-models' }]);
  expect(world.provider.callsOf(run.runId)).toEqual([]);
});
