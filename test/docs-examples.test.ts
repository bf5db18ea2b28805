import { argumentsOf, docsPage, pageCommands, pageFiles, requestOf } from './support/docs-page.ts';
import { millrace } from './producer/cli/support/cli-process.ts';
import { join } from 'node:path';
import { inject, expect, test } from 'vitest';
import { parseConfig } from '../src/shared/contract/config.ts';
import { silentLog } from '../src/shared/base/log.ts';
import { loadTenants } from '../src/shared/contract/tenants.ts';
import { modelsOf } from '../src/worker/agents/agent-models.ts';
import { createPriceLookup, loadPrices } from '../src/worker/llm/prices.ts';
import { createProviders } from '../src/worker/llm/backends/providers.ts';
import { loadAgents } from '../src/worker/agents/load-agents.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { testPrefix } from './support/redis.ts';

const page = ['providers-limits-money.md', 'choosing-models.md', 'nodes-and-media.md'].map(docsPage).join('\n');

test('every file on the pages about models and providers is one that the programs read', async () => {
  const { folder, names } = pageFiles(page);
  expect(new Set(names).size).toBe(names.length);
  expect(new Set(names.map((name) => name.replace(/^agents\/.*/, 'agents')))).toEqual(
    new Set(['providers.yaml', 'providers-media.yaml', 'tenants.yaml', 'prices.yaml', 'check-model.ts', 'agents']),
  );
  const providersIn = (file: string) => {
    const config = parseConfig({ OPENAI_API_KEY: 'sk-test', MILLRACE_PROVIDERS: join(folder, file) });
    return createProviders(config, () => 'a key');
  };
  const providers = providersIn('providers.yaml');
  expect(providersIn('providers-media.yaml').providerFor('studio/painter')).toBeDefined();
  expect(loadPrices(join(folder, 'prices.yaml')).prices.length).toBeGreaterThan(0);
  expect(loadTenants(join(folder, 'tenants.yaml')).of('shop').weight).toBe(3);
  const { agents, problems } = await loadAgents(join(folder, 'agents'));
  expect(problems).toEqual([]);
  const { chainFor } = modelsOf(providers, { price: createPriceLookup() });
  for (const agent of agents.values()) {
    expect([agent.file, chainFor(agent, agent.definition.model, {}, silentLog)]).not.toContain(undefined);
  }
});

test('every command on these pages is one that there is', async () => {
  const env = { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: testPrefix() };
  const lines = pageCommands(page, 'millrace');
  expect(lines.length).toBeGreaterThan(10);
  for (const command of lines) {
    const { code, stderr } = await millrace(argumentsOf(command), { env });
    // There is no such run and no such file here: everything else about the command is right.
    const isFine =
      code === 0 || /^(?:Reading .*\n)?(run_not_found: |validation: .*(cannot be read|no such file))/i.test(stderr);
    expect([command, isFine, stderr]).toEqual([command, true, stderr]);
  }
});

test('every request on these pages is one that the producer understands', async () => {
  const { send } = await serverWorld();
  const requests = pageCommands(page, 'curl');
  expect(requests.length).toBeGreaterThan(5);
  for (const command of requests) {
    const { method, path, headers, body } = requestOf(command);
    const answer = await send(method, path, body, headers);
    const isFine = answer.status < 300 || answer.body.error?.code === 'run_not_found';
    expect([command, isFine, answer.body]).toEqual([command, true, expect.anything()]);
  }
});

test('the pages say which date the prices have that ship with this version', async () => {
  const { priceDataDate } = await import('../src/worker/llm/prices.ts');
  expect(page).toContain(priceDataDate);
});
