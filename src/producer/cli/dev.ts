import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { defined } from '../../shared/base/collections.ts';
import { parseConfig, type Config } from '../../shared/contract/config.ts';
import { asRunError, RunError } from '../../shared/base/errors.ts';
import type { Millrace } from '../client/millrace.ts';
import { devFolder, findDevState } from '../client/dev-state.ts';
import { clientFor } from './options/open-client.ts';
import { examples, exitCodes, type Cli, type ExitCode } from './cli.ts';
import { command } from './options/command.ts';
import { callOf } from './show/call-of.ts';
import { bold, dim, table, yellow } from './show/paint.ts';
import { AgentReload } from './stack/agent-reload.ts';
import { DevLog } from './stack/dev-log.ts';
import { redisPortOf, removeDevState, writeDevState, writeRedisPort } from './stack/dev-notes.ts';
import { ensureRedis } from './stack/ensure-redis.ts';
import { FileWatch } from './stack/file-watch.ts';
import { wantedPort } from './stack/ports.ts';
import { requireProcessPackages } from './stack/process-packages.ts';
import { startSamples } from './stack/samples.ts';
import { startStack, type Stack } from './stack/stack.ts';

/** A Ctrl-C must not take 25 seconds; runs that are cut off continue at the next start. */
const devGraceMs = 5_000;

export const addDev = command('dev', {
  description: 'Run everything on this machine: Redis if there is none, a producer with its console, one worker.',
  help:
    examples('millrace dev', 'PORT=3000 OPENAI_API_KEY=… millrace dev') +
    '\n\nData is kept in .millrace/ of the working directory.',
  work: dev,
});

async function dev(cli: Cli): Promise<ExitCode> {
  requireProcessPackages(cli);
  const config = parseConfig(cli.env);
  const running = findDevState(cli.cwd);
  if (running) {
    const where = running.folder === cli.cwd ? '' : ` in ${running.folder}, and for the folders below it`;
    throw new RunError('invalid_config', `it runs already${where} (pid ${running.pid}): ${running.url}`);
  }
  const agents = resolve(cli.cwd, config.MILLRACE_AGENTS);
  if (!existsSync(agents)) {
    const message = `MILLRACE_AGENTS: there is no folder ${config.MILLRACE_AGENTS}; \`${callOf(cli)} init\` makes one`;
    throw new RunError('invalid_config', message);
  }
  const script = scriptFor(cli, config);
  const artifactStore = storeFor(cli);
  const { stdout } = cli;
  const say = (text: string) => void stdout.write(`${text}\n`);
  const warn = (text: string) => say(yellow(stdout, text));
  const log = new DevLog(stdout);
  const reload = new AgentReload({ cwd: cli.cwd, say, warn });

  if (!cli.env['REDIS_URL']) await ensureRedis(cli);
  // Before the agents are read for the first time: what changes while they are is not missed.
  await using watch = await FileWatch.start(watchedPaths(cli, config), (paths) => reload.changed(paths));
  await using stack = await startStack(cli, {
    env: {
      ...cli.env,
      MILLRACE_SCRIPT: script ?? cli.env['MILLRACE_SCRIPT'],
      ARTIFACT_STORE: artifactStore,
      WORKER_QUEUES: cli.env['WORKER_QUEUES'] ?? 'runs,quarantine',
      SHUTDOWN_GRACE_MS: cli.env['SHUTDOWN_GRACE_MS'] ?? String(devGraceMs),
    },
    redisUrl: cli.env['REDIS_URL'] || undefined,
    redisDir: join(devFolder(cli.cwd), 'redis'),
    redisPort: redisPortOf(cli.cwd),
    host: config.HOST,
    port: wantedPort(cli.env, 'PORT', config.PORT),
    workerPort: wantedPort(cli.env, 'WORKER_PORT', config.WORKER_PORT),
    workers: 1,
    graceMs: cli.env['SHUTDOWN_GRACE_MS'] ? config.SHUTDOWN_GRACE_MS : devGraceMs,
    onLine: (name, line) => log.add(name, line),
    onLoaded(loaded) {
      watch.add(loaded.files);
      reload.loaded(loaded);
    },
    say: warn,
  });
  const { redisUrl, url } = stack;
  if (!cli.env['REDIS_URL']) writeRedisPort(cli.cwd, redisUrl);
  await using mill = clientFor({ ...config, REDIS_URL: redisUrl });
  const forget = (ids: readonly string[]) => mill.forgetAgents(ids);
  // Of the private Redis this is the only worker: what earlier ones announced is gone.
  if (!cli.env['REDIS_URL']) await forget(await announcedBut(reload.agents, mill));
  writeDevState(
    cli.cwd,
    defined({ redisUrl, prefix: config.MILLRACE_PREFIX, url, pid: process.pid, agents, artifactStore }),
  );
  try {
    const samples = script && script !== 'builtin' && !cli.env['REDIS_URL'] ? await samplesOf(script, mill, warn) : 0;
    say(greeting(cli, { ...config, REDIS_URL: redisUrl }, stack, { script, agents: reload.agents, samples }));
    log.open();
    reload.begin({ replace: async () => await stack.workers[0]?.replace(), forget });
    if (!cli.interrupted.aborted) await once(cli.interrupted, 'abort');
    say(dim(stdout, 'Stopping; Ctrl-C again to stop at once.'));
  } finally {
    reload.end();
    removeDevState(cli.cwd);
  }
  return exitCodes.ok;
}

/** A folder beside the data of the private Redis, unless one is set: another Redis may have other workers. */
function storeFor(cli: Cli): string | undefined {
  const set = cli.env['ARTIFACT_STORE'] || undefined;
  return set ?? (cli.env['REDIS_URL'] ? undefined : `file:${join(devFolder(cli.cwd), 'artifacts')}`);
}

async function announcedBut(ids: readonly string[], mill: Millrace): Promise<readonly string[]> {
  return (await mill.agents()).map(({ id }) => id).filter((id) => !ids.includes(id));
}

/** Everything that agents are made of and that a worker reads at its start. What they import comes with each load. */
function watchedPaths(cli: Cli, config: Config): readonly string[] {
  const { MILLRACE_AGENTS, MILLRACE_PROVIDERS, MILLRACE_POLICIES, MILLRACE_PRICES, MILLRACE_SCRIPT } = config;
  const files = [MILLRACE_PROVIDERS, MILLRACE_POLICIES, MILLRACE_PRICES, MILLRACE_SCRIPT];
  const named = [MILLRACE_AGENTS, ...files].filter((path) => path !== undefined && path !== 'builtin');
  return named.map((path) => resolve(cli.cwd, path as string));
}

/** What answers where no model is configured: the script that belongs to the agents, or the built-in one. */
function scriptFor(cli: Cli, config: Config): string | undefined {
  if (config.OPENAI_API_KEY ?? config.OPENAI_BASE_URL ?? config.MILLRACE_PROVIDERS ?? config.MILLRACE_SCRIPT)
    return undefined;
  if (config.NODE_ENV === 'production') return undefined;
  const own = resolve(cli.cwd, config.MILLRACE_AGENTS, 'scripts/demo.yaml');
  return existsSync(own) ? own : 'builtin';
}

/** Runs to look at, in a private Redis that has none, where the scripted model answers: they cost nothing. */
async function samplesOf(script: string, mill: Millrace, warn: (text: string) => void): Promise<number> {
  try {
    return await startSamples(script, mill);
  } catch (error) {
    // The stack is of use without them.
    warn(`The sample runs could not be started: ${asRunError(error).message}`);
    return 0;
  }
}

interface Greeted {
  readonly script: string | undefined;
  readonly agents: readonly string[];
  /** Runs that were started for the console to show. */
  readonly samples: number;
}

function greeting(cli: Cli, config: Config, { url }: Stack, { script, agents, samples }: Greeted): string {
  const { stdout } = cli;
  const port = new URL(url).port;
  const facts: [string, string][] = [
    ['console', `${url}/`],
    ...(samples === 0 ? [] : [['runs', `${samples} samples to look at in the console`] satisfies [string, string]]),
    ['agents', `${agents.join(', ') || 'none'}  (${config.MILLRACE_AGENTS}, loaded again when a file changes)`],
    ['redis', cli.env['REDIS_URL'] ? 'REDIS_URL' : `${config.REDIS_URL}  (private, data in .millrace/redis)`],
  ];
  if (config.PORT !== 0 && port !== String(config.PORT))
    facts.push(['port', `${config.PORT} is taken, so it is ${port}`]);
  return [
    '',
    bold(stdout, `Millrace is running at ${url}`),
    script !== undefined && 'No OPENAI_API_KEY: answers come from the built-in scripted model.',
    '',
    table(facts),
    ...tryIt(cli, url, agents),
    '',
    dim(stdout, 'Ctrl-C stops everything.'),
    '',
  ]
    .filter((line) => line !== false)
    .join('\n');
}

/** Lines that work when they are pasted. */
function tryIt(cli: Cli, url: string, agents: readonly string[]): readonly string[] {
  const agent = agents.includes('support') ? 'support' : agents[0];
  if (agent === undefined)
    return [`There is no agent yet: \`${callOf(cli)} init\` makes one, and it is loaded at once.`];
  const input = agent === 'support' ? 'Where is order 7?' : 'Hello';
  return [
    'Try it, in another terminal in this folder:',
    '',
    `${callOf(cli)} run ${agent} "${input}"`,
    '',
    'or over HTTP, from anywhere on this machine:',
    '',
    `curl -s ${url}/v1/runs -H 'content-type: application/json' -d '{"agent":"${agent}","input":"${input}"}'`,
  ];
}
