import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { z } from 'zod';
import { agentFrom, scriptedModel } from '../../src/testing/index.ts';
import { exportOf } from '../support/export-of.ts';
import { detached, printedBy } from '../../scripts/docs/cli-shapes.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { redisProgress } from '../../src/shared/state/results/progress-notes.ts';
import { redisToolPins } from '../../src/shared/state/pins/tool-pins.ts';
import { offered, server } from '../contract/tool-pins.ts';
import { draft } from '../contract/progress-notes.ts';
import { millrace, millraceProcess, producers, root, settings } from '../producer/cli/support/cli-process.ts';
import { allCommands } from '../producer/cli/support/command-line.ts';
import { runWithFlows } from '../producer/support/flows.ts';
import { planInput } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

/** Over Redis; in `cli-json-over-http.test.ts` over the producer. */
export const reach = { isHttp: false };

function environment(): Record<string, string> {
  const { fleet, url } = shared.world;
  if (reach.isHttp) producers.set(fleet.prefix, url);
  return settings(fleet.prefix, { REDIS_URL: fleet.redisUrl });
}

const hello = planInput({ text: 'Hello.' });

/** A run that has ended, in a thread. */
async function ended(): Promise<string> {
  const { mill } = shared.world;
  const run = await mill.enqueue({ agent: 'plain', input: hello, thread: 'talk' });
  await run.result();
  return run.runId;
}

/** A run that waits for a person. */
async function waits(): Promise<string> {
  const { world } = shared;
  const run = await world.submit('gated', [{ calls: [{ name: 'charge', args: { id: 'c' } }] }, { text: 'Done.' }]);
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  return run.runId;
}

async function withNote(): Promise<string> {
  const { redisUrl, prefix } = shared.world.fleet;
  const runId = await ended();
  const redis = await testRedis('work', redisUrl);
  const notes = redisProgress({ redis, keys: keysFor(prefix), clock: systemClock, ttlS: 1_000 });
  await notes.write(draft('a note', { tenant: 'default', runId }));
  return runId;
}

async function withFlow(): Promise<string> {
  const { mill, fleet } = shared.world;
  const redis = await testRedis('work', fleet.redisUrl);
  return await runWithFlows({ mill, redis, keys: keysFor(fleet.prefix) }, [{}]);
}

/** A server that has changed a tool since its first use. */
async function pinned(): Promise<void> {
  const { redisUrl, prefix } = shared.world.fleet;
  const redis = await testRedis('work', redisUrl);
  const pins = redisToolPins({ redis, keys: keysFor(prefix), clock: systemClock });
  await pins.check('default', server, [offered('read')]);
  await pins.check('default', server, [offered('read', 'New.')]);
}

/** A file of the tenant. */
async function uploaded(): Promise<string> {
  const { id } = await shared.world.mill.files.upload('text', { filename: 'a.txt', purpose: 'user_data' });
  return id;
}

/** A batch that nobody advances. */
async function batchOf(): Promise<string> {
  const { mill } = shared.world;
  const file = await mill.files.upload(`${JSON.stringify(hello)}\n`, { filename: 'lines.jsonl', purpose: 'batch' });
  return (await mill.batches.create({ endpoint: '/v1/runs', input_file_id: file.id, agent: 'plain' })).id;
}

async function paused(): Promise<string> {
  return (await shared.world.mill.batches.pause(await batchOf())).id;
}

async function endedBatch(): Promise<string> {
  const { fleet } = shared.world;
  const env = settings(fleet.prefix, { REDIS_URL: fleet.redisUrl });
  const { stdout } = await millrace(
    ['batch', fileWith('lines.jsonl', `${JSON.stringify(hello)}\n7\n`), '--agent', 'plain', '--json'],
    {
      env,
    },
  );
  return (JSON.parse(stdout) as { id: string }).id;
}

function fileWith(name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-json-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

/** A call that needs what another function makes. */
function after(make: () => Promise<unknown>, ...args: readonly string[]) {
  return async () => {
    await make();
    return { args };
  };
}

/** The arguments of a call of each command, after its name, and its stdin. */
const calls: Readonly<Record<string, () => Promise<{ readonly args: readonly string[]; readonly input?: string }>>> = {
  init: async () => ({ args: [join(dirname(fileWith('kept', '')), 'new')] }),
  run: async () => ({ args: ['plain', hello] }),
  'fan-out': async () => ({ args: ['plain', 'hands', '--input', hello] }),
  evaluate: async () => {
    shared.world.provider.unplanned = (said) => (said.startsWith('[') ? undefined : { text: '{"score":9}' });
    return { args: ['plain', '--judge', 'plain', '--input', hello, '--max-iterations', '1'] };
  },
  task: async () => ({ args: ['counter', '--max-steps', '1'] }),
  chat: async () => ({ args: ['plain'], input: `${hello}\n` }),
  batch: async () => {
    const file = fileWith('lines.jsonl', `${JSON.stringify(hello)}\n`);
    return { args: [file, '--agent', 'plain', '-o', `${file}.out`] };
  },
  'batches list': after(batchOf, '--limit', '3'),
  'batches get': async () => ({ args: [await batchOf()] }),
  'batches pause': async () => ({ args: [await batchOf()] }),
  'batches resume': async () => ({ args: [await paused()] }),
  'batches cancel': async () => ({ args: [await batchOf()] }),
  'batches redrive': async () => ({ args: [await endedBatch()] }),
  'batches download': async () => ({
    args: [await endedBatch(), '-o', join(dirname(fileWith('kept', '')), 'out.jsonl')],
  }),
  tail: async () => ({ args: [await ended()] }),
  get: async () => ({ args: [await waits()] }),
  cancel: async () => ({ args: [await waits()] }),
  runs: after(ended, '--limit', '3'),
  progress: async () => ({ args: [await withNote()] }),
  approvals: after(waits),
  approve: async () => ({ args: [await waits()] }),
  deny: async () => ({ args: [await waits(), '--reason', 'no'] }),
  'budget get': async () => ({ args: ['run', await ended()] }),
  'budget set': async () => ({ args: ['batch', 'b', '10'] }),
  'budget top-up': async () => ({ args: ['batch', 'b', '5'] }),
  'mcp pins': after(pinned),
  'mcp accept': after(pinned, 'files'),
  costs: after(ended),
  erase: async () => ({ args: ['--metadata', 'user=none', '--yes'] }),
  'receipt verify': async () => {
    const { receipt } = await shared.world.mill.erase({ metadata: { user: 'none' } });
    return { args: [fileWith('receipt.json', JSON.stringify(receipt))] };
  },
  'audit list': after(withFlow),
  top: after(ended),
  'flows list': after(withFlow),
  'flows report': after(withFlow),
  'files list': after(uploaded),
  'files put': async () => ({ args: [fileWith('lines.jsonl', '{}\n')] }),
  'files rm': async () => ({ args: [await uploaded()] }),
  'threads list': after(ended),
  'threads show': after(ended, 'talk'),
  'threads title': after(ended, 'talk', 'A talk'),
  'threads messages': after(ended, 'talk'),
  'threads events': after(ended, 'talk'),
  'threads delete': after(ended, 'talk'),
  'threads purge': async () => ({ args: ['--yes'] }),
  agents: async () => ({ args: [] }),
  'agents show': async () => ({ args: ['plain'] }),
  fleet: async () => ({ args: [] }),
  'budget list': async () => ({ args: [] }),
  replay: async () => {
    const { agent } = await agentFrom(join(root, 'agents'), 'summarise');
    const recorded = await exportOf(agent, 'A long text.', { provider: scriptedModel(['Short.']) });
    return {
      args: [fileWith('run.json', JSON.stringify(recorded)), '--agent', join(root, 'agents', 'summarise.ts')],
    };
  },
  'agents check': async () => ({ args: [join(root, 'agents')] }),
  doctor: async () => ({ args: ['--here'] }),
  redrive: async () => ({ args: [await ended()] }),
};

const withJson = allCommands().filter(({ options }) => options.some(({ long }) => long === '--json'));

test('every command with --json has a stated shape', () => {
  const names = withJson.map(({ path }) => path).sort();
  expect(Object.keys(printedBy).sort()).toEqual(names);
  expect(Object.keys(calls).sort()).toEqual(names);
});

/** Nothing that the shape does not name: a field that is printed is one that is stated. */
function expectShape(shape: z.ZodType, document: unknown): void {
  expect(shape.parse(document)).toEqual(document);
}

test.each(withJson.map(({ path }) => path))('`millrace %s --json` prints what is stated', async (path) => {
  const { args, input = '' } = (await calls[path]?.()) ?? { args: [] };
  const env = environment();
  const call = path === 'agents check' || path === 'replay' ? millraceProcess : millrace;
  const { stdout, stderr } = await call([...path.split(' '), ...args, '--json'], { env, input });
  const { as, shape } = printedBy[path] as (typeof printedBy)[string];
  expect(stdout, stderr).not.toBe('');
  const documents = as === 'lines' ? stdout.trimEnd().split('\n') : [stdout];
  for (const document of documents) expectShape(shape, JSON.parse(document));
});

test.each(['run', 'fan-out', 'evaluate', 'task'])(
  '`millrace %s --detach --json` is answered with the run',
  async (path) => {
    const { args } = (await calls[path]?.()) ?? { args: [] };
    const env = environment();
    const { stdout } = await millrace([path, ...args, '--detach', '--json'], { env });
    expectShape(detached, JSON.parse(stdout));
  },
);
