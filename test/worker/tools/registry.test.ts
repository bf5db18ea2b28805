import { describe, expect, test } from 'vitest';
import { configuredTools } from '../../../src/worker/tools/configure.ts';
import { createToolRegistry } from '../../../src/worker/tools/registry.ts';
import { createToolSearch } from '../../../src/worker/tools/builtin/tool-search.ts';
import { calls, from, makeWorld, tool } from './world.ts';

describe('two tools of one name', () => {
  const first = tool('read', () => 'first');
  const second = from(
    'files',
    tool('read', () => 'second'),
  );

  test('both can be called: the later one by the name of its source', () => {
    const registry = createToolRegistry(configuredTools([first, second, second], {}, 'auto-prefix'));
    expect(registry.advertised([]).map(({ name }) => name)).toEqual(['read', 'files__read', 'files__read_2']);
    expect(registry.find('files__read')?.name).toBe('files__read');
  });

  test('only the first one is there by priority', () => {
    const registry = createToolRegistry(configuredTools([first, second], {}, 'priority'));
    expect(registry.advertised([])).toHaveLength(1);
    expect(registry.find('read')).toBe(first);
  });

  test('a long name leaves room for the number', () => {
    const long = from(
      's',
      tool('x'.repeat(64), () => 1),
    );
    const names = configuredTools([long, long, long], {}, 'auto-prefix');
    for (const { name } of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    expect(new Set(names.map(({ name }) => name)).size).toBe(3);
  });
});

test('worked examples are shown with the description, and not those of deferred tools', () => {
  const examples = [{ args: { city: 'Rome' }, note: 'for a city' }];
  const registry = createToolRegistry([
    tool('weather', () => 1, { examples }),
    tool('hidden', () => 1, { examples, deferLoading: true }),
  ]);
  const [weather, hidden] = registry.advertised(['hidden']);
  expect(weather?.description).toContain('- {"city":"Rome"}: for a city');
  expect(hidden?.description).toBe('The tool hidden.');
});

describe('deferred tools', () => {
  const tools = [
    tool('look', () => 1),
    tool('sendInvoice', () => 'sent', { deferLoading: true, description: 'Sends an invoice to a customer.' }),
    tool('list_parcels', () => 'none', { deferLoading: true, description: 'Lists parcels on their way.' }),
    createToolSearch(),
  ];

  test('are listed once they were found, after the others, in the order in which they were found', () => {
    const registry = createToolRegistry(tools);
    expect(registry.advertised([]).map(({ name }) => name)).toEqual(['look', 'tool_search']);
    const found = registry.advertised(['list_parcels', 'sendInvoice', 'gone']);
    expect(found.map(({ name }) => name)).toEqual(['look', 'tool_search', 'list_parcels', 'sendInvoice']);
    expect(registry.listDeferred().map(({ name }) => name)).toEqual(['sendInvoice', 'list_parcels']);
  });

  test('are found by what they do, and the result says so to the worker that continues the run', async () => {
    const world = makeWorld();
    await world.run(tools, calls({ name: 'tool_search', args: '{"query":"invoice for a customer","k":1}' }));
    const { content, promoted } = world.result(0);
    expect(JSON.parse(content)).toMatchObject([{ name: 'sendInvoice', inputSchema: { type: 'object' } }]);
    expect(promoted).toEqual(['sendInvoice']);
  });

  test.each([
    ['list_parcels', ['list_parcels']],
    ['PARCEL', ['list_parcels']],
    ['nothing like it', []],
  ])('search for %s finds %j', async (query, names) => {
    const world = makeWorld();
    await world.run(tools, calls({ name: 'tool_search', args: JSON.stringify({ query }) }));
    expect((JSON.parse(world.result(0).content) as { name: string }[]).map(({ name }) => name)).toEqual(names);
  });

  test('cannot be called before that', async () => {
    const world = makeWorld();
    await world.run(tools, calls('sendInvoice'));
    expect(world.result(0)).toMatchObject({ errorKind: 'unknown_tool', correctable: true });
    await world.run(tools, calls('sendInvoice'), { promoted: ['sendInvoice'] });
    expect(world.journal.at(-1)).toMatchObject({ t: 'tool_result', content: 'sent' });
  });
});
