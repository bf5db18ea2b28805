import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Fleet } from '../support/fleet.ts';

function emptyFleet(): Fleet {
  const fleet = new Fleet();
  onTestFinished(() => fleet.dispose());
  return fleet;
}

/** A folder of agents with these files, removed when the test ends. */
function folderOf(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'tools'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

test('a worker refuses a folder of agents and names every problem in it', async () => {
  const MILLRACE_AGENTS = folderOf({
    'good.yaml': 'model: m\n',
    'no-model.yaml': 'instructions: x\n',
    'unknown-field.yaml': 'model: m\ncolour: red\n',
    'no-such-tool.yaml': 'model: m\ntools: [nonesuch]\n',
    'not-yaml.yaml': 'model: [m\n',
    'broken.ts': 'export default {',
    'not-an-agent.ts': 'export default { id: "x" };',
    'tools/throws.ts': 'throw new Error("at import");',
  });
  const worker = emptyFleet().spawn('worker', 'src/worker/main.ts', { MILLRACE_AGENTS });
  expect(await worker.exited).toMatchObject({ code: 2 });
  for (const name of ['no-model', 'unknown-field', 'no-such-tool', 'not-yaml', 'broken', 'not-an-agent', 'throws']) {
    expect(worker.output).toContain(name);
  }
  expect(worker.output).toContain('colour');
  expect(worker.output).toContain('nonesuch');
  expect(worker.output).not.toContain('good.yaml:');
});

test.each(['src/worker/main.ts', 'src/producer/main.ts'])(
  '%s refuses a bad configuration and names every problem in it',
  async (entry) => {
    const bad = {
      PORT: 'eighty',
      WORKER_CONCURRENCY: '0',
      REDIS_URL: 'http://nowhere',
      LOG_LEVEL: 'loud',
      MILLRACE_PREFIX: 'a b',
    };
    const child = emptyFleet().spawn('child', entry, bad);
    expect(await child.exited).toMatchObject({ code: 2 });
    for (const name of Object.keys(bad)) expect(child.output).toContain(name);
  },
);

test('a producer without API keys refuses to listen beyond the loopback', async () => {
  const producer = emptyFleet().spawn('producer', 'src/producer/main.ts', { HOST: '0.0.0.0' });
  expect(await producer.exited).toMatchObject({ code: 2 });
  expect(producer.output).toContain('MILLRACE_API_KEYS');
});

test('production needs a Redis and refuses the scripted model', async () => {
  const worker = emptyFleet().spawn('worker', 'src/worker/main.ts', {
    NODE_ENV: 'production',
    REDIS_URL: '',
    MILLRACE_SCRIPT: 'builtin',
  });
  expect(await worker.exited).toMatchObject({ code: 2 });
  expect(worker.output).toContain('REDIS_URL');
  expect(worker.output).toContain('MILLRACE_SCRIPT');
});

test.each(['src/worker/main.ts', 'src/producer/main.ts'])(
  '%s refuses a wrong file of tenants and names every problem in it',
  async (entry) => {
    const folder = folderOf({
      'tenants.yaml': 'tenants: { acme: { weight: 0 }, other: { budget: { window: week } } }\n',
    });
    const MILLRACE_TENANTS = join(folder, 'tenants.yaml');
    const child = emptyFleet().spawn('child', entry, { MILLRACE_TENANTS });
    expect(await child.exited).toMatchObject({ code: 2 });
    for (const place of ['acme.weight', 'other.budget.window', 'tenants.yaml']) expect(child.output).toContain(place);
  },
);
