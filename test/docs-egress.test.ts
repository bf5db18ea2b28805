import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { BlockList } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { parseConfig } from '../src/shared/contract/config.ts';
import { createEgress } from '../src/shared/egress/egress.ts';
import { families } from '../src/shared/egress/networks.ts';
import { defineAgent, type AgentSource } from '../src/worker/agents/define-agent.ts';
import { createReadFileTool } from '../src/worker/tools/builtin/read-file.ts';
import { codeBlocks } from './support/markdown.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/egress-and-files.md'), 'utf8');

/** A YAML block by the name in its first line. */
function fileOf(name: string): unknown {
  const found = codeBlocks(page, 'yaml').find((code) => code.startsWith(`# ${name}\n`));
  if (found === undefined) throw new Error(`there is no ${name}`);
  return parse(found);
}

/** What the shell blocks set. */
const settings = Object.fromEntries(
  codeBlocks(page, 'sh').flatMap((code) =>
    [...code.matchAll(/^([A-Z_]+)=(\S+)$/gm)].map(([, name = '', value = '']) => [name, value]),
  ),
);

test('the page has the blocks that are checked here and no others', () => {
  const names = codeBlocks(page, 'yaml').map((code) => code.split('\n', 1)[0]);
  expect(names).toEqual(['# agents/shop-keeper.yaml', '# agents/librarian.yaml', '# worker-egress.yaml']);
  expect(Object.keys(settings)).toEqual(['EGRESS_ALLOWED_HOSTS', 'EGRESS_DOMAINS', 'MILLRACE_FILES']);
});

test('the hosts on the page are allowed as it says', async () => {
  const { MILLRACE_FILES: _, ...env } = settings;
  const { EGRESS_ALLOWED_HOSTS, EGRESS_DOMAINS } = parseConfig(env);
  await using egress = createEgress({ allowedHosts: EGRESS_ALLOWED_HOSTS });
  const reason = (url: string, domains?: readonly string[]) => egress.check(url, domains)?.reason;
  expect(reason('http://search.internal:9200/')).toBeUndefined();
  expect(reason('http://[fd00::7]:8080/')).toBeUndefined();
  expect(reason('http://10.0.0.7/')).toBe('private_address');
  expect(reason('https://api.example.com/', EGRESS_DOMAINS)).toBeUndefined();
  expect(reason('https://x.api.example.com/', EGRESS_DOMAINS)).toBe('domain_not_allowed');
});

test('the agents on the page are agents, and what they set is what the tools have', () => {
  const [keeper, librarian] = ['shop-keeper', 'librarian'].map(
    (id) => defineAgent({ id, ...(fileOf(`agents/${id}.yaml`) as object) } as AgentSource).definition,
  );
  expect(keeper?.toolOptions['http_request']?.args).toEqual({
    headers: { Authorization: { secret: 'shop_token' }, Accept: 'application/json' },
  });
  const folder = mkdtempSync(join(tmpdir(), 'millrace-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'sales'));
  expect(createReadFileTool({ root: folder, scope: librarian?.fileScope }).name).toBe('read_file');
});

test('the policy of the second wall keeps out whatever the check refuses', () => {
  const { spec } = fileOf('worker-egress.yaml') as {
    spec: { egress: { to: { ipBlock?: { cidr: string; except: string[] } }[] }[] };
  };
  const blocks = spec.egress.flatMap(({ to }) => to.flatMap(({ ipBlock }) => ipBlock ?? []));
  expect(blocks.map(({ cidr }) => cidr)).toEqual(['0.0.0.0/0', '2000::/3']);
  const open = blocks.map(({ cidr, except }) => ({ cidr: listOf([cidr]), except: listOf(except) }));
  const reachable = (address: string, type: 'ipv4' | 'ipv6') =>
    open.some(({ cidr, except }) => cidr.check(address, type) && !except.check(address, type));
  const firsts = families.flatMap(({ ranges }) => ranges.map((range) => range.split('/')[0] ?? ''));
  for (const first of firsts) {
    const type = first.includes(':') ? 'ipv6' : 'ipv4';
    expect([first, reachable(first, type)]).toEqual([first, false]);
  }
  expect([reachable('8.8.8.8', 'ipv4'), reachable('2606:4700::1', 'ipv6')]).toEqual([true, true]);
});

function listOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    list.addSubnet(address, Number(bits), address.includes(':') ? 'ipv6' : 'ipv4');
  }
  return list;
}
