#!/usr/bin/env node
// Runs under any Node from 20 on, so that it can find the right one and say clearly when there is none.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

const neededMajor = 24;
const usageError = 2;
const path = (file) => fileURLToPath(new URL(`../${file}`, import.meta.url));

// In a checkout `npm ci` under an old Node leaves packages out without an error: the setup knows how to get them.
if (existsSync(path('src')) && !existsSync(path('node_modules/fastify')))
  spawnSync(process.execPath, [path('scripts/setup.mjs'), 'dependencies'], { stdio: ['ignore', 2, 2] });

if (Number(process.versions.node.split('.')[0]) >= neededMajor) {
  // A checkout runs its source; an installed package has only what was built.
  const main = existsSync(path('src/producer/cli/main.ts')) ? 'src/producer/cli/main.ts' : 'dist/producer/cli/main.js';
  await import(new URL(`../${main}`, import.meta.url).href);
} else {
  // What a checkout brings, and what a project has beside this package.
  runUnder(
    ['node_modules/node/bin/node', 'node_modules/.bin/node', '../node/bin/node']
      .map(path)
      .find((file) => existsSync(file)),
  );
}

/** Starts this very file again under another Node and becomes its shadow: same streams, signals and exit code. */
function runUnder(node) {
  if (!node || process.env.MILLRACE_PINNED_NODE) {
    process.stderr.write(
      `millrace needs Node ${neededMajor} or later and this is ${process.versions.node}.\n` +
        `Install it (https://nodejs.org), or for this project alone: ${existsSync(path('src')) ? 'npm ci' : `npm install --save-dev node@${neededMajor}`}\n`,
    );
    process.exit(usageError);
  }
  const env = { ...process.env, MILLRACE_PINNED_NODE: '1' };
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit', env });
  // A terminal sends SIGINT to both; only what is sent to this process alone must be passed on.
  process.on('SIGINT', () => {});
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(`${node} did not start: ${error.message}\n`);
    process.exit(usageError);
  });
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
