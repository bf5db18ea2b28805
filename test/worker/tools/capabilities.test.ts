import { expect, test } from 'vitest';
import { agentDefinition } from '../../../src/shared/contract/agent/agent.ts';
import { eventBodies, type EventBody } from '../../../src/shared/contract/event.ts';
import {
  createCapabilityRegistry,
  mergedParts,
  sideChannels,
  withCapabilities,
  type CapabilityContext,
} from '../../../src/worker/tools/capabilities.ts';
import { notifyUser } from '../../../src/worker/tools/builtin/user.ts';
import shareNote from '../../../agents/capabilities/share-note.ts';
import { graceMs } from '../../../src/shared/base/deadline.ts';
import { contextOf } from './mcp/world.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { tool } from './world.ts';

function agentOf(more: Readonly<Record<string, unknown>> = {}) {
  return agentDefinition.parse({ id: 'helper', model: 'm', ...more });
}

function contextFor(agent = agentOf(), more: Partial<CapabilityContext> = {}) {
  const events: EventBody[] = [];
  const context: CapabilityContext = {
    agentId: agent.id,
    agent,
    runId: 'run_1',
    tenant: 'default',
    background: false,
    directories: [],
    callbacks: sideChannels((event) => events.push(event)),
    askAgentDepth: 0,
    agentTool: () => {
      throw new Error('there are no other agents');
    },
    ...more,
  };
  return { context, events };
}

const signal = new AbortController().signal;

test('servers of capabilities are put together, and what is injected wins', async () => {
  const registry = createCapabilityRegistry();
  registry.register('one', () => ({ mcpServers: { a: { command: 'a1' }, b: { command: 'b1' } } }));
  registry.register('two', async () => ({ mcpServers: { b: { command: 'b2' }, c: { command: 'c2' } } }));
  const agent = agentOf({ capabilities: ['one', 'two', 'four'] });
  const { context } = contextFor(agent);
  registry.inject('three', () => ({
    mcpServers: { c: { url: 'https://c.example.com' } },
    tools: [tool('x', () => 'injected')],
  }));
  registry.register('four', () => ({ tools: [tool('x', () => 'of the capability'), tool('y', () => 1)] }));
  const resolved = mergedParts([
    await registry.resolve(agent, context, signal),
    await registry.injections(context, signal),
  ]);
  expect(resolved.mcpServers).toMatchObject({
    a: { command: 'a1', required: true, effect: 'once' },
    b: { command: 'b2' },
    c: { url: 'https://c.example.com' },
  });
  expect(resolved.tools.map(({ name }) => name)).toEqual(['x', 'y']);
  expect(resolved.tools[0]?.execute({}, contextOf())).toBe('injected');
});

test('all capabilities get the same object, each once, and may answer nothing', async () => {
  const registry = createCapabilityRegistry();
  const seen: unknown[] = [];
  registry.register('one', (given) => void seen.push(given));
  registry.register('two', async (given) => {
    seen.push(given);
    return undefined;
  });
  const agent = agentOf({ capabilities: ['one', 'two', 'one'] });
  const { context } = contextFor(agent);
  expect(await registry.resolve(agent, context, signal)).toEqual({ mcpServers: {}, tools: [] });
  expect(seen).toEqual([context, context]);
  expect(seen.every((one) => one === context)).toBe(true);
});

test('an unknown capability is refused with the known ones, unless it may be skipped', async () => {
  const registry = createCapabilityRegistry();
  registry.register('notes', () => undefined);
  const text = 'there is no capability nope; known are notes';
  const strict = agentOf({ capabilities: ['notes', 'nope'] });
  expect(registry.check(strict)).toEqual({ problems: [`capabilities: ${text}`], warnings: [] });
  await expect(registry.resolve(strict, contextFor(strict).context, signal)).rejects.toMatchObject({
    code: 'unknown_capability',
    message: text,
  });
  const easy = agentOf({ capabilities: ['notes', 'nope'], unknownCapability: 'skip' });
  expect(registry.check(easy)).toEqual({ problems: [], warnings: [`capabilities: ${text}`] });
  await expect(registry.resolve(easy, contextFor(easy).context, signal)).resolves.toBeDefined();
});

test.each([
  ['fails', () => Promise.reject(new Error('secret words')), 'capability one: it failed'],
  ['brings servers of no shape', () => ({ mcpServers: { 'a b': { command: 'x' } } }), 'its servers are not valid'],
])('a capability that %s is tool_unavailable', async (_, resolver, message) => {
  const registry = createCapabilityRegistry();
  registry.register('one', resolver);
  const agent = agentOf({ capabilities: ['one'] });
  await expect(registry.resolve(agent, contextFor(agent).context, signal)).rejects.toMatchObject({
    code: 'tool_unavailable',
    message: expect.stringContaining(message) as string,
  });
});

test('a capability that does not answer is not waited for without end', async () => {
  const clock = new FakeClock();
  const registry = createCapabilityRegistry({ clock });
  registry.register('one', () => new Promise<never>(() => {}));
  const agent = agentOf({ capabilities: ['one'] });
  const resolving = registry.resolve(agent, contextFor(agent).context, signal);
  resolving.catch(() => {});
  await clock.pass(30_000);
  await clock.pass(graceMs);
  await expect(resolving).rejects.toThrow('capability one: it did not answer within 30000 ms');
});

test('a name is taken once', () => {
  const registry = createCapabilityRegistry();
  registry.register('one', () => undefined);
  expect(() => registry.register('one', () => undefined)).toThrow('capability one is there already');
  expect(() => registry.register('two words', () => undefined)).toThrow('its name must be');
  expect(registry.names).toEqual(['one']);
});

test('each side channel is an event, with texts that are cut', () => {
  const { context, events } = contextFor();
  const { callbacks } = context;
  callbacks.sendFile({ path: 'a.pdf', caption: 'x'.repeat(5_000), fileType: 'application/pdf' });
  callbacks.shareNote({ title: 'T', slug: 't' });
  callbacks.changePin();
  callbacks.notifyUser('done');
  expect(events).toEqual([
    { type: 'capability.file_sent', path: 'a.pdf', caption: 'x'.repeat(4_000), fileType: 'application/pdf' },
    { type: 'capability.note_shared', title: 'T', slug: 't' },
    { type: 'capability.pin_changed' },
    { type: 'capability.user_notified', message: 'done' },
  ]);
  for (const { type, ...body } of events) expect(eventBodies[type].parse(body)).toEqual(body);
});

test('a server that a capability brings needs no grant, but may have one', () => {
  const agent = agentOf({ tools: ['mcp:crm/find'], capabilities: ['x'] });
  const mcpServers = { crm: { url: 'https://crm.example.com' }, notes: { command: 'notes' } } as never;
  const { tools, mcpServers: all } = withCapabilities(agent, { mcpServers });
  expect(tools).toEqual(['mcp:crm/find', 'mcp:notes']);
  expect(Object.keys(all)).toEqual(['crm', 'notes']);
  const boxed = agentOf({ trust: 'sandbox', capabilities: ['x'] });
  expect(withCapabilities(boxed, { mcpServers })).toBe(boxed);
});

test('the example shares a note', async () => {
  const { context, events } = contextFor();
  const [share] = shareNote(context).tools ?? [];
  const args = { title: 'Refunds of today', slug: 'refunds' };
  expect((await share?.check(args))?.ok).toBe(true);
  await share?.execute(args, contextOf());
  expect(events).toEqual([{ type: 'capability.note_shared', ...args }]);
});

test('an absent user can be notified, and no one else', async () => {
  const registry = createCapabilityRegistry();
  registry.inject('notify-user', notifyUser);
  const { context, events } = contextFor(agentOf(), { background: true });
  const { tools } = await registry.injections(context, signal);
  const [notify] = tools;
  expect((await notify?.check({ message: 'It is done.' }))?.ok).toBe(true);
  await notify?.execute({ message: 'It is done.' }, contextOf());
  expect(events).toEqual([{ type: 'capability.user_notified', message: 'It is done.' }]);
  expect(await registry.injections(contextFor().context, signal)).toEqual({ mcpServers: {}, tools: [] });
});

test('an injection that fails is tool_unavailable, and its name is taken once', async () => {
  const registry = createCapabilityRegistry();
  registry.inject('one', () => Promise.reject(new Error('secret words')));
  expect(() => registry.inject('one', () => undefined)).toThrow('injection one is there already');
  await expect(registry.injections(contextFor().context, signal)).rejects.toMatchObject({
    code: 'tool_unavailable',
    message: 'injection one: it failed',
  });
});
