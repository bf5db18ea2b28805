import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseConfig, type Config } from '../../shared/contract/config.ts';
import { RunError } from '../../shared/base/errors.ts';
import { clientFor } from './options/open-client.ts';
import { examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { devFolder, findDevState, removeDevState, writeDevState } from './stack/dev-state.ts';
import { prettyLogLine } from './show/log-line.ts';
import { bold, dim, table, yellow } from './show/paint.ts';
import { startStack, type Stack } from './stack/stack.ts';

/** Nobody waits 25 seconds for a Ctrl-C; what still runs then is handed over and goes on at the next start. */
const devGraceMs = 5_000;

export const addDev: AddCommand = (program, act) => {
  program
    .command('dev')
    .description('Run everything on this machine: Redis if there is none, a producer with its console, one worker.')
    .addHelpText(
      'after',
      examples('millrace dev', 'PORT=3000 OPENAI_API_KEY=… millrace dev') +
        '\n\nData is kept in .millrace/ of the working directory.',
    )
    .action(act(dev));
};

async function dev(cli: Cli): Promise<ExitCode> {
  const config = parseConfig(cli.env);
  const running = findDevState(cli.cwd);
  if (running) throw new RunError('invalid_config', `it runs already (pid ${running.pid}): ${running.url}`);
  const script = scriptFor(cli, config);
  const say = (text: string) => void cli.stdout.write(`${text}\n`);
  const { stdout } = cli;

  await using stack = await startStack(cli, {
    env: {
      ...cli.env,
      ...(script !== undefined && { MILLRACE_SCRIPT: script }),
      WORKER_QUEUES: cli.env['WORKER_QUEUES'] ?? 'runs,quarantine',
      SHUTDOWN_GRACE_MS: cli.env['SHUTDOWN_GRACE_MS'] ?? String(devGraceMs),
    },
    ...(cli.env['REDIS_URL'] && { redisUrl: cli.env['REDIS_URL'] }),
    redisDir: join(devFolder(cli.cwd), 'redis'),
    host: config.HOST,
    port: config.PORT,
    workerPort: config.WORKER_PORT,
    workers: 1,
    graceMs: cli.env['SHUTDOWN_GRACE_MS'] ? config.SHUTDOWN_GRACE_MS : devGraceMs,
    onLine: (name, line) => stdout.write(`${stdout.isTTY ? prettyLogLine(stdout, name, line) : line}\n`),
    say: (text) => say(yellow(stdout, text)),
  });
  const { redisUrl, url } = stack;
  writeDevState(cli.cwd, { redisUrl, prefix: config.MILLRACE_PREFIX, url, pid: process.pid });
  try {
    say(await greeting(cli, { ...config, REDIS_URL: redisUrl }, stack, script));
    await interruption(cli.interrupted);
    say(dim(stdout, 'Stopping; Ctrl-C again to stop at once.'));
  } finally {
    removeDevState(cli.cwd);
  }
  return exitCodes.ok;
}

/** What answers where no model is configured: the script that belongs to the agents, or the built-in one. */
function scriptFor(cli: Cli, config: Config): string | undefined {
  if (config.OPENAI_API_KEY ?? config.OPENAI_BASE_URL ?? config.MILLRACE_PROVIDERS ?? config.MILLRACE_SCRIPT)
    return undefined;
  if (config.NODE_ENV === 'production') return undefined;
  const own = join(cli.cwd, config.MILLRACE_AGENTS, 'scripts/demo.yaml');
  return existsSync(own) ? own : 'builtin';
}

async function greeting(cli: Cli, config: Config, { url }: Stack, script: string | undefined): Promise<string> {
  const { stdout } = cli;
  await using mill = clientFor(config);
  const agents = (await mill.agents()).map(({ id }) => id);
  const agent = agents.includes('support') ? 'support' : (agents[0] ?? 'AGENT');
  const port = new URL(url).port;
  const facts: [string, string][] = [
    ['console', `${url}/`],
    ['agents', `${agents.join(', ') || 'none'}  (${config.MILLRACE_AGENTS})`],
    ['redis', cli.env['REDIS_URL'] ? 'REDIS_URL' : `${config.REDIS_URL}  (private, data in .millrace/redis)`],
    ...(port === String(config.PORT)
      ? []
      : [['port', `${config.PORT} is taken, so it is ${port}`] as [string, string]]),
  ];
  return [
    '',
    bold(stdout, `Millrace is running at ${url}`),
    ...(script === undefined ? [] : ['No OPENAI_API_KEY: answers come from the built-in scripted model.']),
    '',
    table(facts),
    'Try it:',
    '',
    `curl -s ${url}/v1/runs -H 'content-type: application/json' -d '{"agent":"${agent}","input":"Where is order 7?"}'`,
    '',
    `or, in another terminal here:  ${command(cli)} run ${agent} "Where is order 7?"`,
    dim(stdout, 'Ctrl-C stops everything.'),
    '',
  ].join('\n');
}

/** How this program is called from here. A checkout is on nobody's path. */
function command({ cwd, root }: Cli): string {
  return relative(cwd, root) === '' ? 'node bin/millrace.mjs' : 'millrace';
}

async function interruption(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => resolve(), { once: true });
  if (!signal.aborted) await promise;
}
