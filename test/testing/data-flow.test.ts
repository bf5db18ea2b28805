import { expect, test } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool, type AgentSource } from '../../src/worker/index.ts';
import { assertWaits, calls, testAgent, type TestAgentOptions } from '../../src/testing/index.ts';
import { passage, pageText } from '../support/page.ts';

const fetchPage = defineTool({
  name: 'fetch_page',
  description: 'Reads a page.',
  inputSchema: z.object({}),
  effect: 'read',
  trust: 'external',
  execute: () => pageText,
});
const sendMail = defineTool({
  name: 'send_mail',
  description: 'Sends.',
  inputSchema: z.object({ body: z.string() }),
  execute: () => 'sent',
});

const model = () => [calls('fetch_page', {}), calls('send_mail', { body: `So: ${passage}` }), 'Done.'];

function mailer(dataFlowPolicy: AgentSource['dataFlowPolicy'], options: Partial<TestAgentOptions> = {}) {
  const agent = defineAgent({ id: 'mailer', model: 'm', tools: [fetchPage, sendMail], dataFlowPolicy });
  return testAgent(agent, { model: model(), ...options });
}

test('the events of a run are the same without a policy and with one that is off', async () => {
  const [absent, off] = [await mailer(undefined).run('Go.'), await mailer({ mode: 'off' }).run('Go.')];
  expect(off.events).toEqual(absent.events);
  expect(off.calls.map(({ name, status, flow }) => [name, status, flow])).toEqual([
    ['fetch_page', 'done', undefined],
    ['send_mail', 'done', undefined],
  ]);
});

const finding = { rule: 'untrusted-to-sink', argument: 'body', source: { name: 'fetch_page', trust: 'external' } };

test.each([
  ['shadow', 'done', 'flagged'],
  ['enforce', 'refused', 'blocked'],
] as const)('with a policy in %s the call is %s, and has what was found', async (mode, status, decision) => {
  const run = await mailer({ mode }).run('Go.');
  expect(run.calls[1]).toMatchObject({ name: 'send_mail', status, flow: { decision, findings: [finding] } });
});

test('the operator of a process in which agents run by themselves sets the least, too', async () => {
  const run = await mailer({ mode: 'shadow' }, { env: { DATA_FLOW_MODE: 'enforce' } }).run('Go.');
  expect(run.calls[1]).toMatchObject({ status: 'refused', error: { kind: 'dataflow_policy_blocked' } });
});

test('a person who confirms a call here sees the flow, and lets it run', async () => {
  const waiting = await mailer({ mode: 'confirm' }).run('Go.');
  assertWaits(waiting, 'send_mail');
  expect(waiting.pending[0]?.flow).toMatchObject([finding]);
  const granted = await waiting.approve();
  expect(granted.calls.at(-1)).toMatchObject({ flow: { decision: 'declassified' } });
});
