import type { Config } from '../../shared/contract/config.ts';
import { asRunError } from '../../shared/base/errors.ts';
import type { Diagnosis } from '../client/diagnose.ts';
import { clientFor, configOf } from './options/open-client.ts';
import { examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { checkProvider } from './doctor/provider.ts';
import { checkDiagnosis, type Check } from './doctor/checks.ts';
import { dim, green, red, yellow } from './show/paint.ts';

interface Options {
  readonly json?: true;
}

export const addDoctor: AddCommand = (program, act) => {
  program
    .command('doctor')
    .description('Examine Redis, queues, workers, runs and the model provider, and say what to do.')
    .option('--json', 'print one JSON document')
    .addHelpText(
      'after',
      examples('millrace doctor', 'REDIS_URL=redis://redis:6379 millrace doctor --json') +
        '\n\nExit codes: 0 nothing failed, 1 something needs attention, 3 Redis not reachable.',
    )
    .action(act(doctor));
};

async function doctor(cli: Cli, { json }: Options): Promise<ExitCode> {
  const config = configOf(cli);
  const provider = checkProvider(config, cli.interrupted);
  const diagnosis = await diagnosisOf(config);
  const isReached = 'redis' in diagnosis;
  const checks = [isReached ? checkDiagnosis(diagnosis) : diagnosis, await provider].flat();
  if (json) cli.stdout.write(`${JSON.stringify({ checks, diagnosis: isReached ? diagnosis : undefined }, null, 2)}\n`);
  else
    for (const check of checks)
      cli.stdout.write(`${lineOf(cli, check, Math.max(...checks.map(({ name }) => name.length)))}\n`);
  if (!isReached) return exitCodes.unreachable;
  return checks.some(({ level }) => level === 'fail') ? exitCodes.failed : exitCodes.ok;
}

async function diagnosisOf(config: Config): Promise<Diagnosis | Check> {
  await using mill = clientFor(config);
  try {
    return await mill.diagnose();
  } catch (thrown) {
    const error = asRunError(thrown);
    if (error.code !== 'queue_unavailable') throw thrown;
    const where = withoutCredentials(config.REDIS_URL);
    return {
      name: 'redis',
      level: 'fail',
      text: `${where} does not answer`,
      advice: 'start Redis, or set REDIS_URL to the right one',
    };
  }
}

function lineOf(cli: Cli, { name, level, text, advice }: Check, width: number): string {
  const { stdout } = cli;
  const marks = { ok: green(stdout, 'ok  '), warn: yellow(stdout, 'warn'), fail: red(stdout, 'FAIL') };
  return `${marks[level]}  ${name.padEnd(width)} ${text}${advice ? dim(stdout, `  → ${advice}`) : ''}`;
}

function withoutCredentials(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//');
}
