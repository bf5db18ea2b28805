import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { toolOptions } from '../../../../src/shared/contract/agent/agent.ts';
import { createToolExecutor } from '../../../../src/worker/tools/execute/execute.ts';
import { calls, makeWorld, tool } from '../world.ts';

const about = { agentId: 'clerk', tenant: 'acme' };
const metadata = { customer: 'c-7' };
const inputSchema = z.strictObject({ customer: z.string(), order: z.string(), limit: z.number().optional() });

/** What the tool `find` is called with, and what becomes of the call. */
async function find(options: z.input<typeof toolOptions>, args: unknown, more: Record<string, unknown> = {}) {
  const seen: unknown[] = [];
  const world = makeWorld();
  const found = tool('find', (given) => void seen.push(given), { inputSchema, ...more });
  const asked = calls({ name: 'find', args: JSON.stringify(args) });
  const context = {
    about,
    metadata,
    inputs: { list: [{ id: 9, owner: null }] },
    options: { find: toolOptions.parse(options) },
  };
  const end = await world.run([found], asked, {}, context);
  const advertised = createToolExecutor([found], {
    runId: 'R',
    tenant: 'T',
    keyFor: () => '',
    ...context,
  }).advertised([]);
  return { seen, world, end, advertised };
}

describe('arguments from the run', () => {
  const inputMapping = { customer: 'metadata.customer' };

  test('are neither seen nor set by the model, and appear in no event', async () => {
    const { seen, world, advertised } = await find({ inputMapping }, { order: '7' });
    expect(seen).toEqual([{ customer: 'c-7', order: '7' }]);
    expect(Object.keys(advertised[0]?.parameters['properties'] ?? {})).toEqual(['order', 'limit']);
    expect(JSON.stringify(world.events)).not.toContain('c-7');
    const set = await find({ inputMapping }, { order: '7', customer: 'c-8' });
    expect(set.seen).toEqual([]);
    expect(set.world.result(0)).toMatchObject({ errorKind: 'invalid_input', correctable: true });
  });

  test('come after those of the model, and before those that the agent sets', async () => {
    const both = { inputMapping: { ...inputMapping, order: 'inputs.list.0.id' }, args: { order: 'fixed' } };
    expect((await find(both, {})).seen).toEqual([{ customer: 'c-7', order: 'fixed' }]);
  });

  test('are checked with all others before a person is asked', async () => {
    const gated = { needsApproval: true };
    const wrong = await find({ inputMapping: { customer: 'inputs.list' } }, { order: '7' }, gated);
    expect(wrong.end.kind).toBe('done');
    expect(wrong.world.result(0)).toMatchObject({ errorKind: 'invalid_input' });
    expect(wrong.world.eventsOf('tool.approval.requested')).toEqual([]);
  });

  test.each(['metadata.constructor', 'inputs.list.0.owner'])(
    'that this run does not have, like %s, keep the call from being made',
    async (path) => {
      const { seen, world } = await find({ inputMapping: { customer: path } }, { order: '7' });
      expect(seen).toEqual([]);
      expect(world.result(0)).toMatchObject({
        errorKind: 'capability_blocked',
        content: expect.stringContaining(`this run has no ${path}`) as string,
      });
    },
  );

  test.each([
    ['elsewhere.customer', 'must begin with one of metadata, inputs'],
    ['metadata..customer', 'must be a path such as'],
  ])('%s is no path of one', (path, problem) => {
    const parsed = toolOptions.safeParse({ inputMapping: { customer: path } });
    expect(parsed.error?.issues.map(({ message }) => message).join()).toContain(problem);
  });
});

describe('parts of a result', () => {
  const order = { id: '7', lines: [{ sku: 'tea' }], notes: 'x'.repeat(100_000) };

  async function resultOf(outputMapping: z.input<typeof toolOptions>['outputMapping'], returned: unknown = order) {
    const world = makeWorld();
    const options = { look: toolOptions.parse({ outputMapping }) };
    await world.run([tool('look', () => returned)], calls('look'), {}, { options });
    return world.result(0);
  }

  test('are taken from the whole of it, before it is bounded', async () => {
    expect(await resultOf({ number: 'id', first: 'lines.0.sku', absent: 'nowhere' })).toMatchObject({
      content: '{"number":"7","first":"tea"}',
    });
    expect(await resultOf('lines.0.sku')).toMatchObject({ content: 'tea' });
    expect(await resultOf('lines.0', JSON.stringify(order))).toMatchObject({ content: '{"sku":"tea"}' });
  });

  test.each([['constructor'], [{ a: 'nowhere', b: 'lines.1' }]])(
    '%j that is not there is an error',
    async (mapping) => {
      const paths = typeof mapping === 'string' ? mapping : 'nowhere, lines.1';
      expect(await resultOf(mapping)).toMatchObject({
        errorKind: 'invalid_output',
        content: expect.stringContaining(`its result has no ${paths}`) as string,
      });
    },
  );

  test('an error of the tool is shown as it is', async () => {
    const world = makeWorld();
    const broken = tool('look', () => {
      throw new Error('out of paper');
    });
    await world.run([broken], calls('look'), {}, { options: { look: { outputMapping: 'id' } } });
    expect(world.result(0).content).toContain('out of paper');
  });
});
