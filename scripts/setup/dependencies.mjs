import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

const neededMajor = 24;
const quiet = ['--no-audit', '--no-fund', '--loglevel=error'];

/**
 * Makes node_modules match package-lock.json and sees to a Node that can run this project. Throws with what to do when
 * it cannot.
 */
export function ensureDependencies(root, env, say) {
  if (!isInstalled(root)) {
    say('installing the npm dependencies (npm ci)');
    runNpm(['ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error'], root, env);
    writeFileSync(stampFile(root), lockDigest(root));
  }
  if (!pinnedNodeWorks(root)) {
    say('the pinned Node is missing: its install script did not run; running it now');
    runNpm(['rebuild', 'node', '--ignore-scripts=false'], root, env);
  }
  if (!pinnedNodeWorks(root)) {
    throw new Error(
      `Node ${neededMajor} could not be installed into node_modules. Install it yourself: https://nodejs.org`,
    );
  }
  ensureOptional(root, env, say);
}

/** npm leaves out optional packages that need a later Node than the one that runs it: the pinned one fetches them. */
function ensureOptional(root, env, say) {
  if (missingOptional(root).length === 0) return;
  say(`installing what needs Node ${neededMajor}, with that one`);
  // A script of `npm run` may run under the pinned Node, while npm itself is under an old one.
  const node = isNew(process.versions.node) ? process.execPath : join(root, 'node_modules/.bin/node');
  // Not `npm ci`, which would delete the Node that runs it.
  runNpm(['install', '--no-save', '--include=dev', '--include=optional', ...quiet], root, env, node);
  const missing = missingOptional(root);
  if (missing.length > 0) throw new Error(`npm could not install ${missing.join(', ')}. See above; then try again.`);
}

function missingOptional(root) {
  const manifest = join(root, 'package.json');
  if (!existsSync(manifest)) return [];
  const { optionalDependencies = {} } = JSON.parse(readFileSync(manifest, 'utf8'));
  return Object.keys(optionalDependencies).filter((name) => !existsSync(join(root, 'node_modules', name)));
}

/** Also true after an `npm ci` by hand, which then only gets its stamp. */
function isInstalled(root) {
  const digest = lockDigest(root);
  if (existsSync(stampFile(root)) && readFileSync(stampFile(root), 'utf8') === digest) return true;
  if (!matchesLock(root)) return false;
  writeFileSync(stampFile(root), digest);
  return true;
}

/** npm keeps a list of what it installed; what the lock has beyond it must be optional, and not of ours: for another platform. */
function matchesLock(root) {
  const installed = join(root, 'node_modules/.package-lock.json');
  if (!existsSync(installed)) return false;
  const [wanted, present] = [join(root, 'package-lock.json'), installed].map((file) => packagesOf(file));
  const own = Object.keys(wanted['']?.optionalDependencies ?? {}).map((name) => `node_modules/${name}`);
  if (own.some((path) => !present[path])) return false;
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '') return true;
    return present[path] ? present[path].version === entry.version : Boolean(entry.optional ?? entry.devOptional);
  });
}

function packagesOf(file) {
  return JSON.parse(readFileSync(file, 'utf8')).packages ?? {};
}

function stampFile(root) {
  return join(root, 'node_modules/.millrace-lock');
}

function lockDigest(root) {
  return createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
}

/** Is there a Node that runs TypeScript: the one in node_modules, or the one of this machine? */
function pinnedNodeWorks(root) {
  if (isNew(process.versions.node)) return true;
  const { stdout } = spawnSync(join(root, 'node_modules/.bin/node'), ['--version'], { encoding: 'utf8' });
  return isNew((stdout ?? '').replace('v', ''));
}

function isNew(version) {
  return Number(version.split('.')[0]) >= neededMajor;
}

function npmNode(env) {
  return env.npm_node_execpath ?? process.execPath;
}

/**
 * Runs the npm that runs us, under the Node that runs it: the Node of node_modules may be ours right now, and `npm ci`
 * deletes it.
 */
function runNpm(args, root, env, node = npmNode(env)) {
  const cli = env.npm_execpath;
  const [command, prefix] = cli ? [node, [cli]] : ['npm', []];
  // The npm on the path is a script that takes the first Node there.
  const PATH = [dirname(node), env.PATH].join(delimiter);
  const options = { cwd: root, env: { ...env, PATH }, stdio: ['ignore', 2, 2] };
  const { status, error } = spawnSync(command, [...prefix, ...args], options);
  if (status !== 0)
    throw new Error(`npm ${args[0]} failed${error ? `: ${error.message}` : ''}. See above; then try again.`);
}
