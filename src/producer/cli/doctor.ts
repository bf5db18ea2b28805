import { printJson, examples, exitCodes, type Cli } from './cli.ts';
import { asJson, command, flag } from './options/command.ts';
import type { Config } from '../../shared/contract/config.ts';
import { asRunError } from '../../shared/base/errors.ts';
import { clientFor, configOf, remoteOf } from './options/open-client.ts';
import { fail, ok, warn, type Check } from '../client/diagnose/check.ts';
import { checkDiagnosis } from '../client/diagnose/checks.ts';
import { examineRemote, type Findings } from './doctor/over-http.ts';
import { dim, green, red, yellow } from './show/paint.ts';

export const addDoctor = command('doctor', {
  description: 'Examine Redis, queues, workers, their model providers and runs, and say what to do.',
  options: [flag('--here', 'also the provider that a worker started in this shell would use'), asJson],
  help:
    examples('millrace doctor', 'REDIS_URL=redis://redis:6379 millrace doctor --json') +
    '\n\nExit codes: 0 nothing failed, 1 something needs attention, 3 Redis or the producer not reachable.' +
    '\nWith MILLRACE_URL it asks the producer; a key without the scope admin is shown queues and providers.',
  work: async (cli, { here, json }) => {
    const remote = remoteOf(cli);
    const provider = here ? checkProvider(configOf(cli), cli.interrupted) : [];
    const { isReached, diagnosis, checks: found } = await (remote ? examineRemote(remote) : examine(configOf(cli)));
    const checks = [found, await provider].flat();
    if (json) printJson(cli, { checks, diagnosis });
    else
      for (const check of checks)
        cli.stdout.write(`${lineOf(cli, check, Math.max(...checks.map(({ name }) => name.length)))}\n`);
    if (!isReached) return exitCodes.unreachable;
    return checks.some(({ level }) => level === 'fail') ? exitCodes.failed : exitCodes.ok;
  },
});

async function examine(config: Config): Promise<Findings> {
  await using mill = clientFor(config);
  try {
    const diagnosis = await mill.diagnose();
    return { isReached: true, checks: checkDiagnosis(diagnosis), diagnosis };
  } catch (thrown) {
    const error = asRunError(thrown);
    if (error.code !== 'queue_unavailable') throw thrown;
    const where = config.REDIS_URL.replace(/\/\/[^@/]*@/, '//');
    const check = fail('redis', `${where} does not answer`, 'start Redis, or set REDIS_URL to the right one');
    return { isReached: false, checks: [check], diagnosis: undefined };
  }
}

function lineOf(cli: Cli, { name, level, text, advice }: Check, width: number): string {
  const { stdout } = cli;
  const marks = { ok: green(stdout, 'ok  '), warn: yellow(stdout, 'warn'), fail: red(stdout, 'FAIL') };
  return `${marks[level]}  ${name.padEnd(width)} ${text}${advice ? dim(stdout, `  → ${advice}`) : ''}`;
}

const defaultBaseUrl = 'https://api.openai.com/v1';
const deadlineMs = 5_000;

/** Of the line that `--here` adds. */
const name = 'this shell';

/** Asks the default provider for its list of models, which costs nothing. Never throws and never shows the key. */
export async function checkProvider(config: Config, signal: AbortSignal): Promise<Check> {
  if (config.MILLRACE_SCRIPT) return ok(name, `scripted (${config.MILLRACE_SCRIPT})`);
  const key = config.OPENAI_API_KEY;
  if (!key && !config.OPENAI_BASE_URL) {
    if (config.MILLRACE_PROVIDERS) return ok(name, `as ${config.MILLRACE_PROVIDERS} says; not asked`);
    const advice = 'set OPENAI_API_KEY, OPENAI_BASE_URL or MILLRACE_PROVIDERS';
    return warn(name, 'none: the built-in scripted model answers', advice);
  }
  const url = `${(config.OPENAI_BASE_URL ?? defaultBaseUrl).replace(/\/$/, '')}/models`;
  const { host } = new URL(url);
  try {
    const answer = await fetch(url, {
      headers: key ? { authorization: `Bearer ${key}` } : {},
      signal: AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]),
    });
    await answer.body?.cancel();
    return judge(host, answer.status);
  } catch {
    return fail(name, `${host} cannot be reached`, 'check OPENAI_BASE_URL, the proxy and the network');
  }
}

function judge(host: string, status: number): Check {
  if (status === 401 || status === 403)
    return fail(name, `${host} does not accept the key (${status})`, 'check OPENAI_API_KEY');
  if (status >= 500) return fail(name, `${host} answers ${status}`, 'the provider has trouble; runs are retried');
  // A compatible server need not have this list: any answer shows that it is there.
  return ok(name, `${host} answers`);
}
