import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { untrustedPreamble } from '../../../src/worker/prompt/system-prompt.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { startRawProvider } from '../../support/raw-provider.ts';
import { responses } from '../../support/raw-responses.ts';
import { createInMemoryPorts } from '../../../src/worker/local/stores/in-memory.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import {
  refuseEnded,
  runStateFromJSON,
  runStateOf,
  runStateToJSON,
  type RunState,
} from '../../../src/worker/local/run-state.ts';
import { aCommit, aRecord, aTerminalCommit } from '../../contract/run-fixtures.ts';
import { claimed } from '../../contract/store-world.ts';
import { ask } from '../../contract/decisions.ts';

const agent = defineAgent({ id: 'support', model: 'm', instructions: '' });
const at = '2026-01-02T03:04:05.000Z';

const entries: JournalEntry[] = [
  { v: 1, t: 'agent_started', model: 'm', at },
  { v: 1, t: 'suspended', seq: 1, reason: 'approval', at },
];

/** A run that waits for two people, one of whom has agreed. */
async function waiting() {
  const ports = createInMemoryPorts();
  const record = aRecord();
  ports.create(record);
  const { runId } = record;
  const { owner, seq } = await claimed({ runs: ports.runs }, runId);
  const patch = { status: 'suspended', pending: [ask('c1', { approvers: 2 }), ask('c2')] } as const;
  await ports.runs.commit({ runId, owner }, aCommit(seq, { entries, patch, release: 'suspended' }));
  ports.decide(runId, { approvals: [{ toolCallId: 'c1', granted: true }] }, 'kim');
  return { ports, runId };
}

async function aState(): Promise<RunState> {
  const { ports, runId } = await waiting();
  const saved = ports.save(runId);
  if (!saved) throw new Error('the run is not there');
  return runStateOf(saved);
}

const codeOf = (work: () => unknown): unknown => {
  try {
    return work();
  } catch (error) {
    return (error as { code?: string }).code;
  }
};

test('a state comes back from its text as it was', async () => {
  const state = await aState();
  expect(runStateFromJSON(runStateToJSON(state), agent)).toEqual(state);
  expect(runStateFromJSON(JSON.parse(runStateToJSON(state)), agent)).toEqual(state);
});

test('a run that waits goes on in another process, with the votes that were given before', async () => {
  const state = runStateFromJSON(runStateToJSON(await aState()), agent);
  const { runId } = state.record;
  const elsewhere = createInMemoryPorts();
  await elsewhere.restore(state);
  expect(await elsewhere.runs.load(runId)).toMatchObject({
    status: 'suspended',
    pending: [{ id: 'c1' }, { id: 'c2' }],
  });
  expect(elsewhere.decide(runId, { approvals: [{ toolCallId: 'c1', granted: true }] }, 'ada')).toBe(true);
  const answer = await claimed({ runs: elsewhere.runs }, runId, { segment: 1 });
  expect(answer.entries.slice(0, 2)).toEqual(entries);
  expect(answer.entries.at(-1)).toMatchObject({ t: 'decided', decisions: [{ id: 'c1', by: ['kim', 'ada'] }] });
  expect(answer.seq).toBe(state.record.lastSequence + 2);
});

test('a run that was running when it was saved continues from its journal', async () => {
  const { ports, runId } = await waiting();
  ports.decide(runId, { approvals: [{ toolCallId: 'c2', granted: true }] }, 'kim');
  await claimed({ runs: ports.runs }, runId, { segment: 1 });
  const saved = ports.save(runId);
  const elsewhere = createInMemoryPorts();
  if (saved) await elsewhere.restore(saved);
  expect(await elsewhere.runs.load(runId)).toMatchObject({ status: 'queued' });
  const answer = await claimed({ runs: elsewhere.runs }, runId, { segment: 1 });
  expect(answer).toMatchObject({ unclean: false, entries: [...entries, { t: 'decided' }] });
});

test('what is saved does not change with the run', async () => {
  const { ports, runId } = await waiting();
  const saved = ports.save(runId);
  const before = JSON.stringify(saved);
  ports.decide(runId, { approvals: [{ toolCallId: 'c2', granted: true }] });
  expect(JSON.stringify(saved)).toBe(before);
  expect(ports.save('unknown')).toBeUndefined();
});

test.each([
  ['an hour from now when its first call expires then', [ask('c1', { expiresAt: '2099-01-01T00:00:00.000Z' })], false],
  ['at once when its time has come', [ask('c1', { expiresAt: at })], true],
  ['at once when it does not wait for a person', [ask('openai:m', { kind: 'provider_limit' })], true],
  ['never when people are asked for ever', [ask('c1')], false],
] as const)('a restored run is woken %s', async (_, pending, isDue) => {
  const ports = createInMemoryPorts();
  const record = aRecord({ status: 'suspended', pending: [...pending] });
  await ports.restore({ record, entries: [], decisions: [] });
  expect(await ports.waits.due(10)).toEqual(isDue ? [record.runId] : []);
});

test('values of fields with names of credentials are not in the text; arguments of calls stay', async () => {
  const state = await aState();
  const [first] = state.record.pending;
  const args = '{"apiKey":"model wrote this"}';
  const message = { role: 'assistant', parts: [{ type: 'tool_call', id: 'c1', name: 't', args }] };
  const secret = {
    ...state,
    record: {
      ...state.record,
      pending: [{ ...first, args: { apiKey: 'hidden', nested: { password: 'hidden', list: [{ secret: 'hidden' }] } } }],
      request: { ...state.record.request, metadata: { authorization: 'hidden' } },
    },
    entries: [...state.entries, { v: 1, t: 'model_response', message }],
  } as unknown as RunState;
  const text = runStateToJSON(secret);
  expect(text).not.toContain('hidden');
  expect(text.match(/\[redacted\]/g)).toHaveLength(4);
  expect(text).toContain('model wrote this');
});

test.each<[string, (state: RunState) => unknown, string]>([
  ['text that is no JSON', () => '{"version":1', 'run_state_malformed'],
  ['nothing', () => null, 'run_state_malformed'],
  ['a list', () => [], 'run_state_malformed'],
  ['a state without its journal', (state) => ({ ...state, entries: undefined }), 'run_state_malformed'],
  ['a state with more than it has', (state) => ({ ...state, more: 1 }), 'run_state_malformed'],
  ['a wrong status', (state) => ({ ...state, record: { ...state.record, status: 'asleep' } }), 'run_state_malformed'],
  ['an unknown entry', (state) => ({ ...state, entries: [{ v: 1, t: 'dreamt' }] }), 'run_state_malformed'],
  ['two agents', (state) => ({ ...state, agentId: 'other' }), 'run_state_malformed'],
  ['version 999', (state) => ({ ...state, version: 999, entries: 'elsewhere' }), 'run_state_version_unsupported'],
  ['a later record', (state) => ({ ...state, record: { v: 2 } }), 'run_state_version_unsupported'],
  ['a later entry', (state) => ({ ...state, entries: [{ v: 2, t: 'x' }] }), 'run_state_version_unsupported'],
])('%s cannot be read', async (_, change, code) => {
  const changed = change(await aState());
  expect(codeOf(() => runStateFromJSON(typeof changed === 'string' ? changed : JSON.stringify(changed), agent))).toBe(
    code,
  );
});

test('a state of another agent is refused', async () => {
  const other = defineAgent({ id: 'other', model: 'm', instructions: '' });
  const text = runStateToJSON(await aState());
  expect(codeOf(() => runStateFromJSON(text, other))).toBe('validation');
});

test('the state of a run that has ended can be read, and not be gone on with', async () => {
  const ports = createInMemoryPorts();
  const record = aRecord();
  ports.create(record);
  const { owner, seq } = await claimed({ runs: ports.runs }, record.runId);
  await ports.runs.commit({ runId: record.runId, owner }, aTerminalCommit(record.runId, seq));
  const saved = ports.save(record.runId);
  const state = runStateFromJSON(runStateToJSON(runStateOf(saved as NonNullable<typeof saved>)), agent);
  expect(codeOf(() => refuseEnded(state))).toBe('already_terminal');
  expect(codeOf(() => refuseEnded({ record: aRecord({ status: 'suspended' }) }))).toBeUndefined();
});

test('decisions about runs in memory fail as those about runs in Redis do', async () => {
  const { ports, runId } = await waiting();
  const grant = (toolCallId: string, more: object = {}) => ({ approvals: [{ toolCallId, granted: true, ...more }] });
  expect(codeOf(() => ports.decide(runId, grant('c9')))).toBe('approval_not_pending');
  expect(codeOf(() => ports.decide('unknown', grant('c1')))).toBe('run_not_found');
  expect(codeOf(() => ports.decide(runId, {}))).toBe('validation');
  expect(codeOf(() => ports.decide(runId, { budget: { topUpUsd: 1 } }))).toBe('validation');
  expect(codeOf(() => ports.decide(runId, grant('c2', { updatedArgs: { apiKey: 'x' } })))).toBe('secret_in_payload');
  expect(ports.decide(runId, grant('c1'), 'kim')).toBe(false);
  expect(ports.decide(runId, grant('c2'), 'kim')).toBe(true);
});

test('a run of a session that its provider keeps goes on in that session from a text, and reads that results are data', async () => {
  await using server = await startRawProvider([
    responses({ calls: [{ id: 'c1', name: 'pay', args: ['{}'] }] }),
    responses({ text: ['Paid.'] }),
  ]);
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    inputSchema: z.object({}),
    needsApproval: true,
    execute: () => 'paid',
  });
  const payer = defineAgent({ id: 'payer', model: 'm', instructions: 'Be brief.', tools: [pay] });
  const folder = mkdtempSync(join(tmpdir(), 'millrace-state-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'providers.yaml');
  writeFileSync(file, `- { id: mine, kind: openai-responses, baseUrl: '${server.url}', sessions: true }\n`);
  const make = () => createAgentWith(payer, { env: { MILLRACE_PROVIDERS: file } });
  const first = make();
  const { runId, status } = await first.run('Pay it');
  expect(status).toBe('suspended');
  const text = runStateToJSON(first.state(runId));
  const directive = { approvals: [{ toolCallId: 'c1', granted: true }] };
  const view = await make().run(runStateFromJSON(text, payer), { directive });
  expect(view).toMatchObject({ status: 'completed', text: 'Paid.' });
  expect(server.requests[0]?.body).toMatchObject({ instructions: 'Be brief.', store: true });
  expect(server.requests[1]?.body).toMatchObject({
    previous_response_id: 'resp_raw',
    instructions: `Be brief.\n\n${untrustedPreamble('en')}`,
    input: [{ type: 'function_call_output', call_id: 'c1' }],
  });
});

test('a field called sessionToken anywhere else in a state is masked', async () => {
  const state = await aState();
  const [opened] = state.entries;
  const odd = {
    ...state,
    record: { ...state.record, sessionToken: 'mine' },
    entries: [{ ...opened, sessionToken: 's1' }],
  };
  const text = runStateToJSON(odd as unknown as RunState);
  expect(text).toContain('"sessionToken":"s1"');
  expect(text).not.toContain('mine');
});
