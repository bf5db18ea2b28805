import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Fleet } from '../support/fleet.ts';
import { chat, startRawProvider } from '../support/raw-provider.ts';

function folderOf(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'tools'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

function fleetWith(env: Record<string, string>): Fleet {
  const fleet = new Fleet({ env });
  onTestFinished(() => fleet.dispose());
  return fleet;
}

const think = `import { defineTool } from 'millrace/worker';
import { z } from 'zod';
export const think = defineTool({
  name: 'think', description: 'Thinks.', inputSchema: z.object({}), effect: 'read', preferredModel: HINT, execute: () => 'hm',
});
`;

test.each([
  ['a worker at its start', [], ['agent tiers', 'agent wish', 'agent wish']],
  ['a check of the folder', ['agents'], ['tiers.yaml:2', 'wish.yaml:3', 'wish.yaml']],
])('%s names every preferred model that no provider serves', async (_what, args, [tiers, wish, tool]) => {
  const folder = folderOf({
    'good.yaml': 'model: m\nmodelTierMap: { fast: m2 }\npreferredModel: fast\n',
    'tiers.yaml': 'model: m\nmodelTierMap: { smart: { provider: acme, model: big } }\n',
    'wish.yaml': 'model: m\ntools: [think]\npreferredModel: { provider: nowhere, model: x }\n',
    'tools/think.ts': think.replace('HINT', "{ provider: 'gone', model: 'y' }"),
  });
  const child = fleetWith({ MILLRACE_AGENTS: folder }).spawn('worker', 'src/worker/main.ts', {}, args);
  expect(await child.exited).toMatchObject({ code: 2 });
  expect(child.output).toContain(`${tiers}: modelTierMap.smart: no provider serves model big of provider acme`);
  expect(child.output).toContain(`${wish}: preferredModel: no provider serves model x of provider nowhere`);
  expect(child.output).toContain(`${tool}: tool think: preferredModel: no provider serves model y of provider gone`);
  expect(child.output).not.toMatch(/good.*no provider/);
});

test('a folder can be checked where no provider is set up, and says what was left out', async () => {
  const folder = folderOf({ 'a.yaml': 'model: m\nmodelTierMap: { smart: { provider: acme, model: big } }\n' });
  const env = { NODE_ENV: 'production', OPENAI_API_KEY: '', MILLRACE_AGENTS: folder };
  const child = fleetWith(env).spawn('worker', 'src/worker/main.ts', {}, ['agents']);
  expect(await child.exited).toMatchObject({ code: 0 });
  expect(child.output).toContain('the models were not looked up');
});

test('a YAML agent with a tool that prefers the smart tier asks that model for the next step only', async () => {
  const provider = await startRawProvider(
    chat(({ messages }) => {
      const steps = messages.filter(({ role }: { role: string }) => role === 'assistant').length;
      return steps === 0
        ? { toolCalls: [{ name: 'think', args: {} }] }
        : steps === 1
          ? { toolCalls: [{ name: 'none', args: {} }] }
          : { text: 'ok' };
    }),
  );
  onTestFinished(() => provider[Symbol.asyncDispose]());
  const folder = folderOf({
    'tiers.yaml': 'model: small\ntools: [think]\nmodelTierMap: { smart: big }\n',
    'tools/think.ts': think.replace('HINT', "'smart'"),
  });
  const fleet = fleetWith({ MILLRACE_AGENTS: folder, OPENAI_BASE_URL: provider.url });
  await fleet.startWorker();
  const run = await fleet.mill.enqueue({ agent: 'tiers', input: 'x' });
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(provider.requests.map(({ body }) => body.model)).toEqual(['small', 'big', 'small']);
  const sources: string[] = [];
  for await (const event of fleet.mill.events(run.runId))
    if (event.type === 'step.start') sources.push(event.modelSource);
  expect(sources).toEqual(['agent', 'tier-map', 'agent']);
});

test('the request comes before the tools, the tools before the node, the node before what the agent prefers', async () => {
  const provider = await startRawProvider(
    chat(({ messages }) =>
      messages.some(({ role }: { role: string }) => role === 'assistant')
        ? { text: 'ok' }
        : { toolCalls: [{ name: 'think', args: {} }] },
    ),
  );
  onTestFinished(() => provider[Symbol.asyncDispose]());
  const models = 'model: agent\npreferredModel: fast\nmodelTierMap: { smart: big, fast: quick }\n';
  const folder = folderOf({
    'plain.yaml': 'model: agent\ntools: [think]\n',
    'tiers.yaml': `${models}tools: [think]\n`,
    'tools/think.ts': think.replace('HINT', "'smart'"),
  });
  const fleet = fleetWith({ MILLRACE_AGENTS: folder, OPENAI_BASE_URL: provider.url });
  await fleet.startWorker();
  const node = { type: 'agent' as const, id: 'n', prompt_template: 'go', model: 'node' };
  const overrides = { model: 'wanted' };
  const cases = [
    [{ agent: 'plain' }, ['agent', 'agent']],
    [{ agent: 'tiers' }, ['quick', 'big']],
    [{ agent: 'plain', node }, ['node', 'node']],
    [{ agent: 'tiers', node }, ['node', 'big']],
    [{ agent: 'tiers', overrides }, ['wanted', 'wanted']],
    [{ agent: 'tiers', node, overrides }, ['wanted', 'wanted']],
  ] as const;
  for (const [request, expected] of cases) {
    const before = provider.requests.length;
    const run = await fleet.mill.enqueue({ input: 'node' in request ? '' : 'go', ...request });
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(provider.requests.slice(before).map(({ body }) => body.model)).toEqual(expected);
  }
});
