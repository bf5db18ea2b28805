import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { inject, onTestFinished, expect, test } from 'vitest';
import type { Cli } from '../src/producer/cli/cli.ts';
import { runCli } from '../src/producer/cli/program.ts';
import { parseConfig } from '../src/shared/contract/config.ts';
import { silentLog } from '../src/shared/base/log.ts';
import { loadTenants } from '../src/shared/contract/tenants.ts';
import { modelsOf } from '../src/worker/agents/chain.ts';
import { createPriceLookup, loadPrices } from '../src/worker/llm/prices.ts';
import { createProviders } from '../src/worker/llm/backends/providers.ts';
import { loadAgents } from '../src/worker/agents/load-folder.ts';
import { serverWorld } from './producer/http/server-world.ts';
import { codeBlocks } from './support/markdown.ts';
import { testPrefix } from './support/redis.ts';

const root = join(import.meta.dirname, '..');
const page = readFileSync(join(root, 'docs/providers-limits-money.md'), 'utf8');

/** The files of the page, by the name in the first line of each block, written into a folder. */
function pageFolder(): { readonly folder: string; readonly names: readonly string[] } {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const names = codeBlocks(page, 'yaml').map((code) => {
    const [, name] = /^# ([\w/-]+\.yaml)\n/.exec(code) ?? [];
    if (!name) throw new Error(`a block does not say which file it is:\n${code}`);
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), code);
    return name;
  });
  return { folder, names };
}

test('every file on the page about providers is one that the programs read', async () => {
  const { folder, names } = pageFolder();
  expect(new Set(names).size).toBe(names.length);
  expect(new Set(names.map((name) => name.replace(/^agents\/.*/, 'agents')))).toEqual(
    new Set(['providers.yaml', 'providers-media.yaml', 'tenants.yaml', 'prices.yaml', 'agents']),
  );
  const providersIn = (file: string) => {
    const config = parseConfig({ OPENAI_API_KEY: 'sk-test', MILLRACE_PROVIDERS: join(folder, file) });
    return createProviders(config, { env: () => 'a key' });
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

/** The commands of the page, one for each line that begins with this word. */
function commands(word: string): string[] {
  return codeBlocks(page, 'sh').flatMap((code) => {
    const values = [...code.matchAll(/^([A-Z]+)=(\S+)$/gm)].map(
      ([, name, value]) => [`$${name}`, value ?? ''] as const,
    );
    const lines = code.split('\n').filter((line) => line.startsWith(`${word} `));
    return lines.map((line) => values.reduce((text, [name, value]) => text.replaceAll(name, value), line));
  });
}

/** The arguments of a command, without a comment after it. */
function argumentsOf(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|"([^"]*)"|(#.*)|(\S+)/g)].flatMap(([, single, double, comment, plain]) =>
    comment === undefined ? [single ?? double ?? plain ?? ''] : [],
  );
}

test('every command on the page is one that there is', async () => {
  const env = { REDIS_URL: inject('redisUrl'), MILLRACE_PREFIX: testPrefix() };
  const lines = commands('millrace');
  expect(lines.length).toBeGreaterThan(10);
  for (const command of lines) {
    const [stdout, stderr, stdin] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const { signal: interrupted } = new AbortController();
    const cli = { env, cwd: tmpdir(), root, stdin, stdout, stderr, interrupted } as unknown as Cli;
    const code = await runCli(argumentsOf(command).slice(1), cli);
    const said = String(stderr.read() ?? '');
    // There is no such run and no such file here: everything else about the command is right.
    const isFine = code === 0 || /^(run_not_found: |validation: .*(cannot be read|no such file))/i.test(said);
    expect([command, isFine, said]).toEqual([command, true, said]);
  }
});

test('every request on the page is one that the producer understands', async () => {
  const { send } = await serverWorld();
  const requests = commands('curl');
  expect(requests.length).toBeGreaterThan(5);
  for (const command of requests) {
    const { url, method, headers, body } = requestOf(argumentsOf(command).slice(1));
    const answer = await send(method, url.replace('http://127.0.0.1:8080', ''), body, headers);
    const isFine = answer.status < 300 || answer.body.error?.code === 'run_not_found';
    expect([command, isFine, answer.body]).toEqual([command, true, expect.anything()]);
  }
});

function requestOf(args: readonly string[]) {
  const headers: Record<string, string> = {};
  let [url, method, body]: [string, string | undefined, string | undefined] = ['', undefined, undefined];
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? '';
    if (arg === '-H') headers[args[++at]?.split(': ')[0] ?? ''] = args[at]?.split(': ')[1] ?? '';
    else if (arg === '-d') body = args[++at];
    else if (arg === '-X') method = args[++at];
    else if (arg !== '-s') url = arg;
  }
  return { url, method: method ?? (body === undefined ? 'GET' : 'POST'), headers, body };
}

test('the page says which date the prices have that ship with this version', async () => {
  const { priceDataDate } = await import('../src/worker/llm/prices.ts');
  expect(page).toContain(priceDataDate);
});
