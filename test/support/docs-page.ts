import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { Redactor } from '../../src/shared/base/redact.ts';
import { parseConfig } from '../../src/shared/contract/config.ts';
import { loadAgents } from '../../src/worker/agents/load-agents.ts';
import { createToolSecrets } from '../../src/worker/agents/tool-secrets.ts';
import { createToolkit } from '../../src/worker/agents/toolkit.ts';
import { codeBlocks } from './markdown.ts';

const root = join(import.meta.dirname, '../..');

/** The text of a page of `docs`. */
export function docsPage(name: string): string {
  return readFileSync(join(root, 'docs', name), 'utf8');
}

/** A folder that lasts as long as the test. In the checkout, programs find this package as `millrace`. */
export function pageFolder({ inCheckout = false } = {}): string {
  const parent = inCheckout ? join(root, '.vitest') : tmpdir();
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, 'millrace-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes the files of a page, which say their names in their first lines, into a folder: those in TypeScript first. */
export function pageFiles(page: string, folder = pageFolder()): { folder: string; names: readonly string[] } {
  const names = [...codeBlocks(page, 'ts'), ...codeBlocks(page, 'yaml')].map((code) => {
    const [, name] = /^(?:#|\/\/) ([\w./-]+\.(?:yaml|ts))\n/.exec(code) ?? [];
    if (!name) throw new Error(`a block does not say which file it is:\n${code}`);
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), code);
    return name;
  });
  return { folder, names };
}

/** Loads the agents of a folder of a page as a worker does. */
export async function pageAgents(folder: string, env: Record<string, string> = {}) {
  const secrets = createToolSecrets({ env: {} });
  const redactor = new Redactor();
  const config = parseConfig(env);
  await using toolkit = createToolkit({ config, secrets, redactor, log: silentLog, clock: systemClock });
  return await loadAgents(join(folder, 'agents'), toolkit.offer);
}

/** The command lines of the page that begin with a word, with the values of its variables. */
export function pageCommands(page: string, word: string): string[] {
  return codeBlocks(page, 'sh').flatMap((block) => {
    const code = block.replaceAll(/\\\n\s*/g, '');
    const values = [...code.matchAll(/^([A-Z]+)=(\S+)$/gm)].map(([, name, value = '']) => [`$${name}`, value] as const);
    const lines = code.split('\n').filter((line) => line.startsWith(`${word} `));
    return lines.map((line) => values.reduce((text, [name, value]) => text.replaceAll(name, value), line));
  });
}

/** The arguments of a command, without what a shell takes out: a comment, and where the output goes. */
export function argumentsOf(command: string): string[] {
  const words = command.matchAll(/'([^']*)'|"([^"]*)"|((?:#|> ).*)|(\S+)/g);
  return [...words]
    .flatMap(([, single, double, dropped, plain]) => (dropped === undefined ? [single ?? double ?? plain ?? ''] : []))
    .slice(1);
}

/** The request that a command line of `curl` makes. */
export function requestOf(command: string) {
  const args = argumentsOf(command);
  const after = (flag: string) => args.flatMap((arg, index) => (arg === flag ? [args[index + 1] ?? ''] : []));
  const headers: Record<string, string> = Object.fromEntries(after('-H').map((header) => header.split(': ')));
  const [body] = after('-d');
  const [method = body === undefined ? 'GET' : 'POST'] = after('-X');
  const path = args.find((arg) => arg.startsWith('http'))?.replace('http://127.0.0.1:8080', '') ?? '';
  return { method, path, headers, body };
}
