import { createContext, runInContext } from 'node:vm';
import { expect, onTestFinished, test } from 'vitest';
import { consoleScript } from '../../../src/producer/http/console.ts';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { until } from '../../support/redis.ts';
import { RunWriter } from '../support/run-writer.ts';
import { suspendedRun } from '../support/suspended.ts';
import { endRun, serverWorld, type ServerWorld } from './server-world.ts';

type Listener = (event: { preventDefault(): void }) => void;

/** As much of a DOM element as the console uses. */
class FakeElement {
  value = '';
  disabled = false;
  hidden = true;
  className = '';
  scrollTop = 0;
  scrollHeight = 0;
  childNodes: (FakeElement | string)[] = [];
  readonly #listeners = new Map<string, Listener>();

  get textContent(): string {
    return this.childNodes.map((node) => (typeof node === 'string' ? node : node.textContent)).join('');
  }

  set textContent(text: string) {
    this.childNodes = text === '' ? [] : [text];
  }

  get firstChild() {
    return { remove: () => void this.childNodes.shift() };
  }

  append(...nodes: (FakeElement | string)[]): void {
    this.childNodes.push(...nodes);
  }

  replaceChildren(...nodes: (FakeElement | string)[]): void {
    this.childNodes = nodes;
  }

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, listener);
  }

  fire(type: string): void {
    this.#listeners.get(type)?.({ preventDefault: () => {} });
  }
}

/** Runs the console's script against a real server, in a page that keeps this API key. */
function openConsole({ url }: ServerWorld, key: string): (id: string) => FakeElement {
  const elements = new Map<string, FakeElement>();
  const byId = (id: string) => {
    const element = elements.get(id) ?? new FakeElement();
    elements.set(id, element);
    return element;
  };
  const leave = new AbortController();
  onTestFinished(() => leave.abort());
  const page = {
    document: { getElementById: byId, createElement: () => new FakeElement(), hidden: true },
    sessionStorage: { getItem: () => key, setItem: () => {} },
    fetch: (path: string, init: RequestInit = {}) => {
      const signals = [leave.signal, ...(init.signal ? [init.signal] : [])];
      return fetch(url + path, { ...init, signal: AbortSignal.any(signals) });
    },
    Option: class extends FakeElement {
      constructor(text: string, value: string) {
        super();
        this.textContent = text;
        this.value = value;
      }
    },
    setInterval: () => {},
    setTimeout,
    AbortController,
    TextDecoderStream,
  };
  runInContext(consoleScript, createContext(page));
  return byId;
}

test('the console starts a run, shows its text as it comes and how it ended', async () => {
  const world = await serverWorld({ apiKeys: `${sha256('k')}:default` });
  await world.mill.registerAgents([{ id: 'support', name: 'Support', model: 'm', tools: [] }]);
  const byId = openConsole(world, 'k');
  await until('the agents are offered', () => byId('agent').textContent === 'Support');
  byId('agent').value = 'support';
  byId('input').value = 'Where is order 7?';
  byId('start').fire('submit');
  const runId = await until('a run is shown', () => byId('run').textContent);
  await until('its first event is shown', () => byId('log').textContent.includes('1  run.queued'));
  await until('it is listed', () => byId('runs').textContent.includes(`${runId}supportqueued$0.000000`));

  const run = new RunWriter(world.redis, world.keys, runId);
  await run.emit([{ type: 'text.delta', delta: '<b>half', model: 'm' }]);
  await until('its text is shown', () => byId('text').textContent === '<b>half');
  await endRun(run);
  await until('its end is shown', () => byId('state').textContent === 'completed, $0.000007');
  expect(byId('text').textContent).toBe('It is on its way.');
  expect(byId('cancel').disabled).toBe(true);
  expect(byId('problem').textContent).toBe('');
});

const firstIn = (node: FakeElement) => node.childNodes[0] as FakeElement;

test('the console shows a run whose events are gone from its record', async () => {
  const world = await serverWorld();
  const run = await world.start();
  await endRun(run);
  await world.redis.del(world.keys.events(run.runId));
  const byId = openConsole(world, '');
  await until('the run is listed', () => byId('runs').textContent.includes(run.runId));
  firstIn(firstIn(firstIn(byId('runs')))).fire('click');
  await until('its end is shown', () => byId('state').textContent.startsWith('completed'));
  expect(byId('text').textContent).toBe('It is on its way.');
  expect(byId('log').textContent).toContain('no longer kept');
  expect(byId('cancel').disabled).toBe(true);
  expect(byId('problem').textContent).toBe('');
});

test('the console shows a run whose first events are gone from where its log begins', async () => {
  const world = await serverWorld();
  const run = await world.start();
  await run.emit(Array.from({ length: 5 }, () => ({ type: 'text.delta' as const, delta: 'x', model: 'm' })));
  await world.redis.xtrim(world.keys.events(run.runId), 'MAXLEN', 2);
  await endRun(run);
  const byId = openConsole(world, '');
  await until('the run is listed', () => byId('runs').textContent.includes(run.runId));
  firstIn(firstIn(firstIn(byId('runs')))).fire('click');
  await until('its end is shown', () => byId('state').textContent.startsWith('completed'));
  expect(byId('problem').textContent).toBe('');
});

test('the console cancels the run that it shows', async () => {
  const world = await serverWorld();
  const { runId } = await world.start();
  const byId = openConsole(world, '');
  await until('the run is listed', () => byId('runs').textContent.includes(runId));
  const [row, cell] = [firstIn(byId('runs')), firstIn(firstIn(byId('runs')))];
  expect(row.childNodes).toHaveLength(5);
  firstIn(cell).fire('click');
  await until('the run is shown', () => byId('log').textContent.includes('run.queued'));
  byId('cancel').fire('click');
  await until('its end is shown', () => byId('state').textContent.startsWith('cancelled'));
  expect((await world.mill.get(runId)).status).toBe('cancelled');
});

test('the console lets a run that waits for money pass its cap', async () => {
  const world = await serverWorld();
  const { runId } = await suspendedRun(world, [{ kind: 'budget', id: 'batch:b1' }]);
  const byId = openConsole(world, '');
  await until('the run is listed', () => byId('runs').textContent.includes(runId));
  const firstIn = (node: FakeElement) => node.childNodes[0] as FakeElement;
  firstIn(firstIn(firstIn(byId('runs')))).fire('click');
  await until('the wait is shown', () => byId('state').textContent === 'waits for money of batch:b1');
  expect(byId('approve').hidden).toBe(false);
  byId('approve').fire('click');
  await until('the run goes on', () => byId('state').textContent === 'resumed');
  expect(byId('approve').hidden).toBe(true);
  expect((await world.mill.get(runId)).status).toBe('queued');
});

test('the console shows why the server refuses it', async () => {
  const byId = openConsole(await serverWorld({ apiKeys: `${sha256('k')}:default` }), 'wrong');
  await until('the problem is shown', () => byId('problem').textContent !== '');
  expect(byId('problem').textContent).toMatch(/^unauthorized: /);
});
