import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { RunError } from '../../src/shared/base/errors.ts';
import type { RunExport } from '../../src/shared/contract/archive/run-export.ts';
import {
  assertNoDepartures,
  calls,
  replayExport,
  scriptedModel,
  type ModelScript,
  type ScriptedAnswer,
} from '../../src/testing/index.ts';
import { defineAgent, defineTool, filters, type Agent } from '../../src/worker/index.ts';
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

test('what a run adds to a prompt that was made for it is no departure, another prompt is one', async () => {
  const made = (text: string) => support({ instructions: () => text });
  const run = await exportOf(made('You answer.'), 'Where is order 7?', { provider: scriptedModel(['Here.']) });
  expect(run.initial[0]).toEqual({ role: 'system', content: 'You answer.' });
  const asked = { ...run, request: { ...run.request, instructions: 'Be polite.' } };
  assertNoDepartures(await replayExport(asked, made('You answer.')));
  expect(kindsOf(await replayExport(asked, made('You answer.\n\nBe brief.')))).toEqual(['system']);
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

/** Two servers that the agent has whole: both offer `search`, so that of the second has the server's name in front. */
function shopper(change: Partial<Parameters<typeof defineAgent>[0]> = {}): Agent {
  return defineAgent({
    id: 'shopper',
    model: 'gpt-5.2-mini',
    tools: ['mcp:shop', 'mcp:stock'],
    mcpServers: { shop: { command: 'no-such-program' }, stock: { command: 'no-such-program' } },
    toolCollisions: 'auto-prefix',
    ...change,
  });
}

const offered = (name: string) =>
  defineTool({ name, description: 'Finds.', inputSchema: z.object({}), execute: () => `by ${name}` });

test('a tool of one of several servers is offered once, under the name by which it was called', async () => {
  const run = await exportOf(shopper(), 'Is it there?', {
    provider: scriptedModel([calls('stock__search'), calls('list'), calls('no such tool'), 'Yes.']),
    servers: { shop: [offered('search')], stock: [offered('search'), offered('list')] },
  });
  const replay = await replayExport(run, shopper());
  assertNoDepartures(replay);
  expect(replay.run.calls).toMatchObject([{ status: 'done' }, { status: 'done' }, { error: { kind: 'unknown_tool' } }]);
  const names = replay.run.requests[0]?.tools?.map(({ name }) => name) ?? [];
  expect(names.toSorted()).toEqual(['list', 'search', 'stock__search']);
  expect(replay.notes).toContainEqual(expect.stringContaining('list'));
  const gated = await replayExport(run, shopper({ toolOptions: { 'mcp:stock/search': { needsApproval: true } } }));
  expect(gated.departures).toMatchObject([{ kind: 'gated', what: 'a person would be asked about stock__search' }]);
});

const clerk = (of = tools(false)) =>
  defineAgent({ id: 'clerk', model: 'gpt-5.2', instructions: 'You do what you are asked.', tools: of });
const desk = () =>
  defineAgent({
    id: 'desk',
    model: 'gpt-5.2-mini',
    instructions: 'You ask the clerk.',
    agentTools: { subagent_clerk: { agent: 'clerk' } },
  });

const withClerk = (of = tools(false)) => ({
  agent: desk(),
  agents: [clerk(of)],
  loadTask: mayNotRun,
  capabilities: {},
});

/** Two runs of one agent work at the same time, and the second is the first to end. */
async function delegated(): Promise<RunExport> {
  return await exportOf(desk(), 'Both, please.', {
    provider: scriptedModel(bothAsked),
    agents: [clerk(tools(true))],
    onPending: async () => ({ granted: true }),
  });
}

const asks = (input: string) => ({ name: 'subagent_clerk', args: { input } });
const bothAsked: ModelScript = ({ model, messages }) => {
  const last = messages.at(-1);
  const isAnswered = last?.role === 'tool';
  if (model === 'gpt-5.2-mini')
    return isAnswered ? { text: 'All done.' } : { toolCalls: [asks('look at 7'), asks('pay 8')] };
  if (isAnswered) return { text: `clerk: ${last.content}` };
  const pays = JSON.stringify(messages).includes('pay 8');
  return {
    toolCalls: [
      pays ? { name: 'refund', args: { order: '8', amountUsd: 5 } } : { name: 'lookup_order', args: { order: '7' } },
    ],
  };
};

test('the calls of runs that work for the run are compared, and a departure names the run', async () => {
  const run = await delegated();
  expect(run.children.map(({ request }) => request.input)).toEqual(['look at 7', 'pay 8']);
  const same = await replayExport(run, withClerk());
  assertNoDepartures(same);
  assertNoDepartures(await replayExport(run, withClerk(), { model: bothAsked }));
  const child = { runId: run.children[1]?.run.runId, agent: 'clerk' };
  const other = await replayExport(run, withClerk(), {
    model: (request, ...more) => {
      const answer = bothAsked(request, ...more) as ScriptedAnswer;
      return JSON.stringify(answer).includes('"8"') ? { text: 'clerk: paid' } : answer;
    },
  });
  expect(other.departures).toContainEqual(
    expect.objectContaining({ kind: 'call', what: 'the model did not call refund', child }),
  );
  expect(same.run.calls.map(({ name, status }) => [name, status])).toContainEqual(['refund', 'done']);
  const open = await replayExport(run, withClerk(tools(false, false)));
  expect(open.departures).toMatchObject([
    { kind: 'ungated', child, stepNumber: 1, what: 'no person would be asked about refund' },
  ]);
  expect(() => assertNoDepartures(open)).toThrow(`(step 1 of run ${child.runId} of agent clerk)`);
  // Of whichever order the recorded runs are in, each is that of its call.
  const turned = { ...run, children: run.children.toReversed() };
  assertNoDepartures(await replayExport(turned, withClerk()));
});

test('calls of one id in several steps have the results of their own steps', async () => {
  const again = (order: string) => ({ toolCalls: [{ id: 'call_0', name: 'lookup_order', args: { order } }] });
  const run = await exportOf(support({}, tools(true)), 'Where are they?', {
    provider: scriptedModel([again('7'), again('8'), 'There.']),
  });
  const replay = await replayExport(run, support());
  assertNoDepartures(replay);
  const results = replay.run.requests.at(-1)?.messages.filter(({ role }) => role === 'tool') ?? [];
  expect(results.map((result) => JSON.stringify(result))).toEqual([
    expect.stringContaining('7'),
    expect.stringContaining('8'),
  ]);
});

test('an export with names and texts of no use is replayed like any other', async () => {
  const run = await recorded();
  const json = JSON.stringify(run)
    .replace('"agent":{', '"agent":{"__proto__":{"toolDefinitions":[{"name":"constructor"}]},')
    .replaceAll('"args":{', '"args":{"__proto__":{"polluted":true},');
  const replay = await replayExport(JSON.parse(json) as RunExport, support());
  expect(replay.run.status).toBeDefined();
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
});

test('a file that cannot be one whole export is refused in one short sentence', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-replay-'));
  const file = (text: string) => {
    const path = join(folder, 'run.json');
    writeFileSync(path, text);
    return path;
  };
  const refusal = async (text: string) =>
    await replayExport(file(text), support()).then(
      () => 'no refusal',
      (error: RunError) => (error.code === 'validation' ? error.message : error),
    );
  const whole = JSON.stringify(await recorded());
  expect(await refusal(whole.slice(0, -10))).toMatch(/is no JSON: it may be cut off$/);
  const head = '{"kind":"millrace.run-export","v":1,"children":';
  expect(await refusal(`${head}${'['.repeat(100_000)}${']'.repeat(100_000)}}`)).toMatch(/is nested too deep/);
  expect(await refusal(' '.repeat(100_000_001))).toMatch(/is larger than 64 MiB/);
  expect(await refusal(`{"kind":"millrace.run-export","v":"\\u001b[2J${'9'.repeat(9_999)}"}`)).toMatch(
    /has another version; this Millrace reads 1$/,
  );
  const wrong = await refusal(`${head}[${'{"v":1},'.repeat(2_000)}{}]}`);
  expect(Buffer.byteLength(String(wrong))).toBeLessThan(10_000);
  await expect(replayExport(folder, support())).rejects.toThrow('cannot be read');
});

test('an export whose definition has a field with a name of the language is compared like any other', async () => {
  const run = structuredClone(await recorded());
  const [tool] = (run.agent?.['toolDefinitions'] ?? []) as { parameters: unknown }[];
  if (tool) tool.parameters = JSON.parse('{"constructor":{"x":1},"__proto__":{"y":1}}');
  const { departures } = await replayExport(run, support());
  expect(departures).toMatchObject([{ kind: 'tools', recorded: '{"x":1}', now: 'nothing' }]);
});

test('a script of a recorded answer runs again, and its calls get their recorded results', async () => {
  const lookup = (execute: () => unknown) =>
    defineTool({
      name: 'lookup',
      description: 'Looks.',
      inputSchema: z.object({ n: z.number() }),
      effect: 'read',
      execute,
    });
  const coder = (execute: () => unknown) =>
    defineAgent({ id: 'coder', model: 'm', tools: [lookup(execute)], toolInvocation: 'code-mode' });
  const source = 'return (await tools.lookup({ n: 1 })).found + (await tools.lookup({ n: 2 })).found;';
  let found = 0;
  const run = await exportOf(
    coder(() => ({ found: ++found })),
    'Sum.',
    {
      provider: scriptedModel([calls('code_execute', { source }), 'Three.']),
    },
  );
  const replay = await replayExport(run, coder(mayNotRun));
  assertNoDepartures(replay);
  const results = replay.run.calls.map(({ name, result }) => [name, result]);
  expect(results).toEqual([['code_execute', '3'], ...[1, 2].map((n) => ['lookup', { found: n }])]);
});

test('a run that hands over goes the same way again, and the handoff is done', async () => {
  const handing = (filter?: () => never) =>
    defineAgent({
      id: 'reception',
      model: 'gpt-5.2-mini',
      handoffs: filter ? [{ agent: 'clerk', filter: filters.custom(filter) }] : ['clerk'],
    });
  const present = (agent: Agent) => ({ agent, agents: [clerk()], loadTask: mayNotRun, capabilities: {} });
  const recordedFor = async (agent: Agent) =>
    await exportOf(agent, 'Where is order 7?', {
      provider: scriptedModel([calls('transfer_to_clerk'), calls('lookup_order', { order: '7' }), 'It was shipped.']),
      agents: [clerk(tools(true))],
    });
  const replay = await replayExport(await recordedFor(handing()), present(handing()));
  assertNoDepartures(replay);
  expect(replay.run.calls).toMatchObject([
    { name: 'transfer_to_clerk', status: 'done', durationMs: 0, agent: 'reception' },
    { name: 'lookup_order', status: 'done', agent: 'clerk' },
  ]);
  const broken = handing(() => {
    throw new Error('no filter');
  });
  const failed = await recordedFor(broken);
  expect(failed.run.status).toBe('failed');
  assertNoDepartures(await replayExport(failed, present(broken)));
});

/** A call as providers give it that number those of each answer anew. */
const numbered = (name: string, args: Record<string, unknown>) => ({ toolCalls: [{ id: 'call_0', name, args }] });

test('a call that is refused now is a departure, also where a later one has its id', async () => {
  const run = await exportOf(support({}, tools(true)), 'Where are they?', {
    provider: scriptedModel([
      numbered('lookup_order', { order: '7777' }),
      numbered('lookup_order', { order: '8' }),
      numbered('lookup_order', { order: '9999' }),
      'There.',
    ]),
  });
  const [lookup, refund] = tools(false);
  const strict = defineTool({
    name: 'lookup_order',
    description: 'Finds an order by its number.',
    inputSchema: z.object({ order: z.string().max(3) }),
    effect: 'read',
    execute: mayNotRun,
  });
  const replay = await replayExport(run, support({ tools: [strict, refund as never] }));
  expect(replay.departures).toMatchObject([{ kind: 'tools' }, { kind: 'refused', stepNumber: 1 }]);
  const statuses = replay.run.calls.map(({ status, stepNumber }) => [stepNumber, status]);
  expect(statuses).toEqual([
    [1, 'refused'],
    [2, 'done'],
    [3, 'refused'],
  ]);
  expect((await replayExport(run, support({ tools: [lookup as never, refund as never] }))).departures).toEqual([]);
});

test('a run that corrects its arguments under the same id goes the same way again', async () => {
  const run = await exportOf(support({}, tools(true)), 'Where is it?', {
    provider: scriptedModel([
      numbered('lookup_order', { order: 7 }),
      numbered('lookup_order', { order: '7' }),
      'It was shipped.',
    ]),
  });
  const replay = await replayExport(run, support());
  assertNoDepartures(replay);
  expect(replay.run.calls).toMatchObject([{ status: 'refused' }, { status: 'done' }]);
});

test('what a person decided is that of the step, also where calls of several steps have one id', async () => {
  const verdicts = [
    { granted: false, reason: 'not this one' },
    { granted: true, updatedArgs: { order: '8', amountUsd: 1 } },
  ];
  let asked = 0;
  const run = await exportOf(support({}, tools(true)), 'Pay them.', {
    provider: scriptedModel([
      numbered('refund', { order: '7', amountUsd: 20 }),
      numbered('refund', { order: '8', amountUsd: 20 }),
      numbered('lookup_order', { order: '8' }),
      'Paid.',
    ]),
    onPending: async () => verdicts[asked++],
  });
  const replay = await replayExport(run, support());
  assertNoDepartures(replay);
  expect(replay.run.calls).toMatchObject([
    { name: 'refund', status: 'refused', error: { kind: 'approval_denied' } },
    { name: 'refund', status: 'done', args: { order: '8', amountUsd: 1 } },
    { name: 'lookup_order', status: 'done' },
  ]);
});

/** The same export of a run that came no further than its first `steps` answers, and whose last call has no result. */
function cutAfter(run: RunExport, steps: number, change: Partial<RunExport['run']>): RunExport {
  const cut = structuredClone(run);
  cut.steps.steps.length = steps;
  const last = cut.steps.steps.at(-1)?.calls.at(-1);
  if (last) last.args = last.modelArgs ?? last.args;
  const later = ['modelArgs', 'result', 'error', 'startedAt', 'endedAt', 'decision'] as const;
  if (last) for (const field of later) delete last[field];
  return { ...cut, run: { ...cut.run, result: undefined, ...change } };
}

test.each(['queued', 'running', 'suspended'] as const)('an export of a run that is %s is refused', async (status) => {
  const cut = cutAfter(await recorded(), 2, { status, endedAt: undefined });
  await expect(replayExport(cut, support())).rejects.toMatchObject({
    code: 'validation',
    message: `run ${cut.run.runId} has not ended (it is ${status}): export it once it has`,
  });
});

test('an export of a run that never began is refused', async () => {
  const cut = cutAfter(await recorded(), 0, { status: 'cancelled', startedAt: undefined });
  await expect(replayExport(cut, support())).rejects.toMatchObject({
    code: 'validation',
    message: `run ${cut.run.runId} never began: there is nothing to replay`,
  });
});

const stops = [
  ['was cancelled', { status: 'cancelled' }],
  [
    'was stopped (deadline_exceeded)',
    { status: 'failed', error: { code: 'deadline_exceeded', message: 'too late', retryable: false } },
  ],
] as const;

test.each(stops)('a run that %s is compared as far as it had come, and a note says so', async (how, change) => {
  // It waited for a person when it was stopped.
  const cut = cutAfter(await recorded(), 2, change);
  const replay = await replayExport(cut, support());
  assertNoDepartures(replay);
  expect(replay.notes).toEqual([`run ${cut.run.runId} of agent support ${how}: it is compared as far as it had come`]);
  const prompted = await replayExport(cut, support({ instructions: 'Be brief.' }));
  expect(kindsOf(prompted)).toEqual(['system']);
  const limited = await replayExport(cut, support({ limits: { maxLlmCalls: 1 } }));
  expect(kindsOf(limited)).toEqual(['steps']);
  const [, refund] = tools(false);
  const gone = await replayExport(cut, support({ tools: [refund as never] }));
  expect(gone.departures).toMatchObject([{ kind: 'tools' }, { kind: 'refused', stepNumber: 1, recorded: 'it ran' }]);
});

test('a call that a cancel denied, or broke off, is not said to have run', async () => {
  const cut = cutAfter(await recorded(), 2, { status: 'cancelled' });
  const denied = structuredClone(cut);
  const last = denied.steps.steps[1]?.calls[0];
  if (last) last.decision = { granted: false, by: [], at: cut.run.createdAt, reason: 'the run was cancelled' };
  assertNoDepartures(await replayExport(denied, support()));
  const open = await replayExport(denied, support({}, tools(false, false)));
  expect(open.departures).toMatchObject([{ kind: 'ungated', recorded: 'it waited for a person' }]);
  const broken = structuredClone(cut);
  const begun = broken.steps.steps[1]?.calls[0];
  if (begun) {
    begun.startedAt = cut.run.createdAt;
    begun.error = { kind: 'aborted', message: 'the call was stopped before it answered', hint: 'report_to_user' };
  }
  assertNoDepartures(await replayExport(broken, support({}, tools(false, false))));
  const [lookup] = tools(false);
  const gone = await replayExport(broken, support({ tools: [lookup as never] }));
  expect(gone.departures).toMatchObject([
    { kind: 'tools' },
    { kind: 'refused', recorded: 'the call was stopped before it answered' },
  ]);
});

test('a live replay of a run that was cancelled is compared up to its last call', async () => {
  const cut = cutAfter(await recorded(), 2, { status: 'cancelled' });
  const model = scriptedModel([...answers.slice(0, 2), calls('lookup_order', { order: '9' }), 'Done.']);
  const replay = await replayExport(cut, support(), { model });
  expect(replay.departures.map(({ kind, what }) => [kind, what])).toEqual([]);
});

test('an export is read in the encodings in which shells write files', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'millrace-replay-')), 'run.json');
  const text = JSON.stringify(await recorded()).replaceAll('Where is order 7?', 'Où est « 7 » 🙂?');
  const little = Buffer.from(`\uFEFF${text}`, 'utf16le');
  for (const bytes of [Buffer.from(text), Buffer.from(`\uFEFF${text}`), little, Buffer.from(little).swap16()]) {
    writeFileSync(file, bytes);
    const { departures, run } = await replayExport(file, support());
    expect(departures).toEqual([]);
    expect(JSON.stringify(run.requests[0]?.messages)).toContain('Où est « 7 » 🙂?');
  }
});

const childOf = (run: RunExport) => ({ ...run, children: [], run: { ...run.run, startedAt: 'x' } });

test.each([
  ['run.createdAt', (run: RunExport) => void (run.run.createdAt = 'garbage')],
  ['run.startedAt', (run: RunExport) => void (run.run.startedAt = '')],
  ['run.endedAt', (run: RunExport) => void (run.run.endedAt = '2026-13-01T00:00:00.000Z')],
  ['steps.queuedAt', (run: RunExport) => void (run.steps.queuedAt = 'yesterday')],
  [
    'events.0.timestamp',
    (run: RunExport) => void run.events.splice(0, 1, { type: 'x', sequenceNumber: 1, timestamp: '12' }),
  ],
  ['children.0.run.startedAt', (run: RunExport) => void run.children.push(childOf(run))],
])('an export with a bad date in %s is refused with the file and the field', async (field, change) => {
  const file = join(mkdtempSync(join(tmpdir(), 'millrace-replay-')), 'run.json');
  const run = await recorded();
  change(run);
  writeFileSync(file, JSON.stringify(run));
  const error: RunError = await replayExport(file, support()).then(
    () => expect.unreachable(),
    (thrown: RunError) => thrown,
  );
  expect(error.code).toBe('validation');
  expect(error.message).toContain(`the export ${file} cannot be used:\n  ${field}: `);
});
