import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError } from 'commander';
import { asRunError } from '../../shared/base/errors.ts';
import { addAgents } from './agents.ts';
import { addApprovals } from './approvals.ts';
import { addBatch } from './batch.ts';
import { addBudget } from './budget.ts';
import { addCancel } from './cancel.ts';
import { addChat } from './chat.ts';
import { addCosts } from './costs.ts';
import { addApprove, addDeny } from './decide.ts';
import { exitCodeFor, exitCodes, type AddCommand, type Cli, type ExitCode, type Work } from './cli.ts';
import { addDemo } from './demo.ts';
import { addDev } from './dev.ts';
import { addDoctor } from './doctor.ts';
import { addEvaluate } from './evaluate.ts';
import { addFanOut } from './fan-out.ts';
import { addGet } from './get.ts';
import { addMedia } from './media.ts';
import { addProducer, addWorker } from './processes.ts';
import { addProgress } from './progress.ts';
import { addRedrive } from './redrive.ts';
import { addRun } from './run.ts';
import { addRuns } from './runs.ts';
import { withEnvFile } from './options/env-file.ts';
import { agentFilesFor } from './show/agent-files.ts';
import { callOf } from './show/call-of.ts';
import { red } from './show/paint.ts';
import { addTail } from './tail.ts';
import { addTask } from './task.ts';
import { addThreads } from './threads.ts';

const commands: readonly AddCommand[] = [
  addDev,
  addDemo,
  addProducer,
  addWorker,
  addRun,
  addFanOut,
  addEvaluate,
  addTask,
  addChat,
  addBatch,
  addTail,
  addGet,
  addMedia,
  addProgress,
  addCancel,
  addApprovals,
  addApprove,
  addDeny,
  addBudget,
  addCosts,
  addRuns,
  addThreads,
  addAgents,
  addDoctor,
  addRedrive,
];

/** These are about the processes of a fleet and what they share. All others are about the data of one tenant. */
const withoutTenant: ReadonlySet<string> = new Set(['dev', 'demo', 'producer', 'worker', 'agents', 'doctor']);

/** Runs the command that the arguments name and answers the exit code. Never throws. */
export async function runCli(args: readonly string[], cli: Cli): Promise<ExitCode> {
  let code: ExitCode = exitCodes.ok;
  const act = <Args extends unknown[]>(work: Work<Args>) => {
    return async (...given: Args) => {
      // Commander gives the command itself last.
      const { tenant } = (given.at(-1) as Command).opts<{ readonly tenant?: string }>();
      code = await work({ ...cli, env: withEnvFile(cli.env, cli.cwd), tenant }, ...given);
    };
  };
  const program = createProgram(cli);
  for (const add of commands) add(program, act);
  for (const command of program.commands) if (!withoutTenant.has(command.name())) offerTenant(command);
  try {
    await program.parseAsync([...args], { from: 'user' });
  } catch (error) {
    return failed(cli, error);
  }
  return code;
}

/** Redis checks no API keys: a user with access to it may act for every tenant. */
function offerTenant(command: Command): void {
  if (command.commands.length === 0) command.option('--tenant <name>', 'whose data it is about (default: default)');
  for (const part of command.commands) offerTenant(part);
}

function createProgram(cli: Cli): Command {
  return new Command('millrace')
    .description('LLM agents as durable jobs on BullMQ and Redis')
    .version((JSON.parse(readFileSync(join(cli.root, 'package.json'), 'utf8')) as { version: string }).version)
    .exitOverride()
    .configureOutput({ writeOut: (text) => cli.stdout.write(text), writeErr: (text) => cli.stderr.write(text) })
    .showHelpAfterError('(millrace COMMAND --help says more)')
    .addHelpText(
      'after',
      '\nExit codes: 0 ok, 1 a run failed, 2 usage or configuration, 3 Redis not reachable, 130 interrupted.' +
        '\nSettings come from the environment, and from .env of this folder where the environment does not set them.' +
        '\nWithout REDIS_URL the stack of `millrace dev` is used when it runs.',
    );
}

function failed(cli: Cli, thrown: unknown): ExitCode {
  if (thrown instanceof CommanderError) {
    // Commander has printed it already. Asking for help or the version is no mistake.
    return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  }
  if (cli.interrupted.aborted) return exitCodes.interrupted;
  const error = asRunError(thrown);
  cli.stderr.write(`${red(cli.stderr, `${error.code}:`)} ${error.message}\n`);
  const files = agentFilesFor(error, cli);
  if (files !== undefined) cli.stderr.write(`${files}\n`);
  if (error.code === 'queue_unavailable') cli.stderr.write(`\`${callOf(cli)} doctor\` says more.\n`);
  return exitCodeFor(error);
}
