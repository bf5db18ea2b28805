import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseConfig, type Config } from '../../shared/contract/config.ts';
import { RunError } from '../../shared/base/errors.ts';
import { clientFor } from './options/open-client.ts';
import { examples, exitCodes, type Cli, type ExitCode } from './cli.ts';
import { command } from './options/command.ts';
import { devFolder, findDevState, removeDevState, writeDevState } from './stack/dev-state.ts';
import { bold, dim, table, yellow, oneLine, red } from './show/paint.ts';
import { startStack, type Stack } from './stack/stack.ts';
import type { WriteStream } from 'node:tty';

/** Facts that every line has, or that the head of a pretty line shows already. */
const headFields: ReadonlySet<string> = new Set(['level', 'time', 'service', 'pid', 'msg']);
const maxFact = 160;

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
  const config = parseConfig(cli.env);
  const running = findDevState(cli.cwd);
  if (running) throw new RunError('invalid_config', `it runs already (pid ${running.pid}): ${running.url}`);
  const script = scriptFor(cli, config);
  const say = (text: string) => void cli.stdout.write(`${text}\n`);
  const { stdout } = cli;

  await using stack = await startStack(cli, {
    env: {
      ...cli.env,
      MILLRACE_SCRIPT: script ?? cli.env['MILLRACE_SCRIPT'],
      WORKER_QUEUES: cli.env['WORKER_QUEUES'] ?? 'runs,quarantine',
      SHUTDOWN_GRACE_MS: cli.env['SHUTDOWN_GRACE_MS'] ?? String(devGraceMs),
    },
    redisUrl: cli.env['REDIS_URL'] || undefined,
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
    if (!cli.interrupted.aborted) await once(cli.interrupted, 'abort');
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
  ];
  if (port !== String(config.PORT)) facts.push(['port', `${config.PORT} is taken, so it is ${port}`]);
  return [
    '',
    bold(stdout, `Millrace is running at ${url}`),
    script !== undefined && 'No OPENAI_API_KEY: answers come from the built-in scripted model.',
    '',
    table(facts),
    'Try it:',
    '',
    `curl -s ${url}/v1/runs -H 'content-type: application/json' -d '{"agent":"${agent}","input":"Where is order 7?"}'`,
    '',
    `or, in another terminal here:  ${callOf(cli)} run ${agent} "Where is order 7?"`,
    dim(stdout, 'Ctrl-C stops everything.'),
    '',
  ]
    .filter((line) => line !== false)
    .join('\n');
}

/** How this program is called from here. A checkout is on no path. */
function callOf({ cwd, root }: Cli): string {
  return relative(cwd, root) === '' ? 'node bin/millrace.mjs' : 'millrace';
}

/** A line of a process's JSON log as a person reads it; a line that is not JSON as it is. */
function prettyLogLine(stream: WriteStream, name: string, line: string): string {
  const entry = parse(line);
  if (!entry) return `${dim(stream, name)} ${line}`;
  const time = typeof entry['time'] === 'string' ? entry['time'].slice(11, 19) : '';
  const facts = Object.entries(entry)
    .filter(([field]) => !headFields.has(field))
    .map(([field, value]) => `${field}=${oneLine(factOf(value), maxFact)}`);
  const message = typeof entry['msg'] === 'string' ? entry['msg'] : '';
  const head = dim(stream, `${time} ${name.padEnd(8)}`);
  return `${head} ${levelOf(stream, entry['level'])}${message} ${dim(stream, facts.join(' '))}`.trimEnd();
}

function parse(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    // Text that only looks like JSON is shown as the text that it is.
    return undefined;
  }
}

function levelOf(stream: WriteStream, level: unknown): string {
  if (level === 'error' || level === 'fatal') return `${red(stream, level)} `;
  return level === 'warn' ? `${yellow(stream, level)} ` : '';
}

function factOf(value: unknown): string {
  if (typeof value === 'string') return value;
  const isError = typeof value === 'object' && value !== null && 'message' in value;
  return isError ? String(value.message) : JSON.stringify(value);
}
