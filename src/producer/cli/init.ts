import { existsSync, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { relative, resolve, join } from 'node:path';
import { RunError } from '../../shared/base/errors.ts';
import { examples, exitCodes, printJson, type Cli, type ExitCode } from './cli.ts';
import { asJson, command } from './options/command.ts';
import { addManifest, isModulePackage } from './project/manifest.ts';
import { isLinkNote, Scaffold } from './project/scaffold.ts';
import { callOf } from './show/call-of.ts';
import { quoted } from './show/pending.ts';
import { bold, dim, table } from './show/paint.ts';
import { oneLine } from '../../shared/base/words.ts';

const composeNames = ['docker-compose.yml', 'docker-compose.yaml', 'compose.yml', 'compose.yaml'];
/** What this command puts into the folder of agents. */
const ownAgentFiles: ReadonlySet<string> = new Set(['support.ts', 'tools', 'package.json']);

export const addInit = command('init [folder]', {
  description: 'Make a folder to begin with: an agent with a tool, a test, .env.example, a compose file.',
  options: [asJson],
  help:
    examples('millrace init', 'millrace init shop') +
    '\n\nAsks nothing and overwrites nothing: what is there already is left alone, and named. Works in an empty folder and in' +
    '\nan existing npm project.',
  work: async (cli, folder, { json }) => init(cli, folder, json === true),
});

function init(cli: Cli, folder: string | undefined, json: boolean): ExitCode {
  const target = resolve(cli.cwd, folder ?? '.');
  makeFolder(target);
  refuseUnreadable(join(target, 'package.json'));
  const scaffold = new Scaffold(join(cli.root, 'templates'), target);
  if (scaffold.linkAt('agents') === undefined) makeFolder(join(target, 'agents'));
  const isNew = addManifest(scaffold, cli.root);
  addAgent(scaffold, target);
  scaffold.add('env.example', '.env.example');
  const compose = composeNames.find((name) => existsSync(join(target, name)));
  if (compose === undefined) scaffold.add('docker-compose.yml', 'docker-compose.yml');
  else scaffold.leave(compose);
  scaffold.add('gitignore', '.gitignore', (text, present) => {
    const lines = new Set(present.split(/\r?\n/).map((line) => line.trim().replace(/^\/|\/$/g, '')));
    const missing = text.split('\n').filter((line) => line !== '' && !lines.has(line.replace(/\/$/, '')));
    return missing.length > 0 ? `add to it: ${missing.join(' ')}` : undefined;
  });
  scaffold.add('tsconfig', 'tsconfig.json');
  const { created, left } = scaffold;
  if (json) return printJson(cli, { folder: target, created, leftAlone: left });
  const shown = oneLine(relative(cli.cwd, target), 512) || '.';
  const parts = [
    created.length > 0 && `${bold(cli.stdout, `Made in ${shown}`)}\n${table(created.map((path) => [`  ${path}`]))}`,
    left.length > 0 &&
      `${bold(cli.stdout, 'Left alone, because it is there already')}\n${table(left.map(({ path, note = '' }) => [`  ${path}`, note]))}`,
    next(cli, target, isNew),
  ];
  cli.stdout.write(parts.filter((part) => part !== false).join('\n'));
  return exitCodes.ok;
}

/** Agents of the user's own stay among themselves: a sample beside them would be one more agent that runs. */
function addAgent(scaffold: Scaffold, target: string): void {
  const link = scaffold.linkAt('agents/tools');
  if (link !== undefined) {
    scaffold.leave(`${link}/`, `it ${isLinkNote}, so there is no sample agent`);
    return;
  }
  if (readdirSync(join(target, 'agents')).some((name) => !ownAgentFiles.has(name) && !name.startsWith('.'))) {
    scaffold.leave('agents/', 'it has files of yours, so there is no sample agent');
    return;
  }
  scaffold.add('agents/support.ts', 'agents/support.ts');
  scaffold.add('agents/tools/lookup_order.ts', 'agents/tools/lookup_order.ts');
  // Files with `import` are modules only where a package.json says so.
  if (!isModulePackage(target)) scaffold.add('agents/manifest', 'agents/package.json');
  scaffold.add('test/support.test.ts', 'test/support.test.ts');
}

function next(cli: Cli, target: string, isNew: boolean): string {
  const call = callOf({ ...cli, cwd: target });
  const shown = relative(cli.cwd, target);
  const needsVitest = !isNew && !existsSync(join(target, 'node_modules/vitest'));
  const rows = [
    shown !== '' && [`cd ${quoted(shown)}`, ''],
    isNew && ['npm install', ''],
    [`${call} dev`, 'everything on this machine; agents are loaded again when they change'],
    needsVitest && ['npm install --save-dev vitest', 'runs the test'],
    ['npx vitest run', 'the test of the agent; it needs no key'],
    ['cp .env.example .env', 'for the key of your provider'],
  ].filter((row) => row !== false);
  return `${bold(cli.stdout, 'Next')}\n${table(rows.map(([line = '', means = '']) => [`  ${line}`, dim(cli.stdout, means)]))}`;
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new RunError('invalid_config', `the folder ${path} cannot be made (${code}): name another one`, { cause });
  }
}

/** A folder, or a link that leads nowhere: neither can be added to, nor is there room for a new one. */
function refuseUnreadable(manifest: string): void {
  if (!lstatSync(manifest, { throwIfNoEntry: false }) || statSync(manifest, { throwIfNoEntry: false })?.isFile())
    return;
  throw new RunError('invalid_config', `${manifest} is no file: remove it, or name another folder`);
}
