import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError } from 'commander';
import { nearest } from '../../shared/base/nearest.ts';
import { asRunError, type ErrorCode, type RunError } from '../../shared/base/errors.ts';
import { addAgents } from './fleet/agents.ts';
import { addApprovals } from './approvals.ts';
import { addAudit } from './audit/audit.ts';
import { addBatch } from './batch/batch.ts';
import { addBatches } from './batch/batches.ts';
import { addBudget } from './budget.ts';
import { addCancel } from './cancel.ts';
import { addChat } from './chat.ts';
import { addFleet } from './fleet/fleet.ts';
import { addCosts } from './costs.ts';
import { addApprove, addDeny } from './decide.ts';
import { exitCodeFor, exitCodes, type AddCommand, type Cli, type ExitCode, type Work } from './cli.ts';
import { addDemo } from './demo.ts';
import { addDev } from './dev.ts';
import { addDoctor } from './doctor.ts';
import { addErase, addReceipt } from './audit/erase.ts';
import { addEvaluate } from './evaluate.ts';
import { addExport } from './record/export.ts';
import { addFanOut } from './fan-out.ts';
import { addFiles } from './files.ts';
import { addFlows } from './flows.ts';
import { addGet } from './get.ts';
import { addInit } from './init.ts';
import { addMedia } from './media.ts';
import { addProducer, addWorker } from './processes.ts';
import { addProgress } from './progress.ts';
import { addRedrive } from './redrive.ts';
import { addRun } from './run.ts';
import { addRuns } from './runs.ts';
import { addTop } from './top.ts';
import { withEnvFile } from './options/env-file.ts';
import { agentFilesFor } from './show/agent-files.ts';
import { firstScreen, helpWidthOf } from './options/first-screen.ts';
import { callOf } from './show/call-of.ts';
import { dim, red, withoutColours } from './show/paint.ts';
import { printable } from '../../shared/base/words.ts';
import { addMcp } from './mcp.ts';
import { addReplay } from './record/replay.ts';
import { addTail } from './tail.ts';
import { addTask } from './task.ts';
import { addThreads } from './threads.ts';

const commands: readonly AddCommand[] = [
  addInit,
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
  addBatches,
  addTail,
  addReplay,
  addGet,
  addExport,
  addMedia,
  addProgress,
  addCancel,
  addApprovals,
  addApprove,
  addDeny,
  addBudget,
  addCosts,
  addFleet,
  addTop,
  addFlows,
  addAudit,
  addRuns,
  addFiles,
  addThreads,
  addAgents,
  addMcp,
  addDoctor,
  addRedrive,
  addErase,
  addReceipt,
];

/** These are about the processes of a fleet and what they share. All others are about the data of one tenant. */
const withoutTenant: ReadonlySet<string> = new Set([
  'init',
  'dev',
  'demo',
  'producer',
  'worker',
  'agents',
  'doctor',
  'replay',
]);

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
  const program = programOf(cli, act);
  program.hook('preAction', () => {
    if (program.opts<{ readonly color: boolean }>().color && !cli.env['NO_COLOR']) return;
    for (const stream of [cli.stdout, cli.stderr]) withoutColours(stream);
  });
  try {
    await program.parseAsync([...args], { from: 'user' });
  } catch (error) {
    return failed(cli, error, { program, args });
  }
  return code;
}

/** The whole command line, as it is run and as the reference describes it. */
export function programOf(cli: Pick<Cli, 'root' | 'stdout' | 'stderr'>, act: Parameters<AddCommand>[1]): Command {
  const program = createProgram(cli);
  for (const add of commands) add(program, act);
  for (const command of program.commands) if (!withoutTenant.has(command.name())) offerTenant(command);
  return program;
}

/** Redis checks no API keys: a user with access to it may act for every tenant. Over HTTP the key names the tenant. */
function offerTenant(command: Command): void {
  if (command.commands.length === 0)
    command.option('--tenant <name>', 'whose data it is about, over Redis (default: default)');
  for (const part of command.commands) offerTenant(part);
}

function createProgram(cli: Pick<Cli, 'root' | 'stdout' | 'stderr'>): Command {
  return new Command('millrace')
    .description('LLM agents as durable jobs on BullMQ and Redis')
    .version((JSON.parse(readFileSync(join(cli.root, 'package.json'), 'utf8')) as { version: string }).version)
    .exitOverride()
    .option('--no-color', 'no colours, as with NO_COLOR')
    .configureOutput({
      writeOut: (text) => cli.stdout.write(text),
      writeErr: (text) => cli.stderr.write(text),
      getOutHelpWidth: () => helpWidthOf(cli.stdout),
      getErrHelpWidth: () => helpWidthOf(cli.stderr),
    })
    .configureHelp({ formatHelp: firstScreen })
    .showHelpAfterError('(millrace COMMAND --help says more)')
    .addHelpText(
      'after',
      '\nExit codes: 0 ok, 1 run failed, 2 usage or settings, 3 unreachable, 130 Ctrl-C.' +
        '\nEvery command: --help, --no-color, and --json where it prints data.' +
        '\nSettings: environment, then .env. Where: MILLRACE_URL with MILLRACE_API_KEY' +
        '\n(HTTP), else REDIS_URL, else the `millrace dev` of this folder.',
    );
}

/** What the user typed. */
interface Typed {
  readonly program: Command;
  readonly args: readonly string[];
}

function failed(cli: Cli, thrown: unknown, typed: Typed): ExitCode {
  if (thrown instanceof CommanderError) {
    if (thrown.code === 'commander.excessArguments') suggestPart(cli, typed);
    // Commander has printed it already. Asking for help or the version is no mistake.
    return thrown.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  }
  if (cli.interrupted.aborted) return exitCodes.interrupted;
  const error = asRunError(thrown);
  cli.stderr.write(`${red(cli.stderr, `${error.code}:`)} ${printable(error.message)}\n`);
  const files = agentFilesFor(error, cli);
  if (files !== undefined) cli.stderr.write(`${files}\n`);
  if (error.code === 'queue_unavailable') cli.stderr.write(`\`${callOf(cli)} doctor\` says more.\n`);
  const hint = keyHints[error.code];
  if (hint !== undefined) cli.stderr.write(`${dim(cli.stderr, `→ ${hint}`)}\n`);
  const next = nextCommand(error);
  if (next !== undefined) cli.stderr.write(`${dim(cli.stderr, `→ ${callOf(cli)} ${next}`)}\n`);
  return exitCodeFor(error);
}

/** Where a command does something without its parts, commander takes a misspelt part for an argument. */
function suggestPart({ stderr }: Cli, { program, args }: Typed): void {
  const [name, part = ''] = args.filter((arg) => !arg.startsWith('-'));
  const parts = program.commands.find((command) => command.name() === name)?.commands ?? [];
  const names = parts.map((command) => command.name());
  const meant = nearest(part, names);
  if (meant !== undefined) stderr.write(`(Did you mean ${name} ${meant}?)\n`);
}

/** The command that helps on, with what it does. */
function nextCommand({ code, details }: RunError): string | undefined {
  const isAboutAgent =
    Array.isArray(details) && details.some((detail: { readonly path?: unknown }) => detail?.path === 'agent');
  if (code === 'validation' && isAboutAgent) return 'agents   lists the agents';
  return nextCommands[code];
}

/** What a user whose key was refused can do. */
const keyHints: Readonly<Partial<Record<ErrorCode, string>>> = {
  unauthorized: 'set MILLRACE_API_KEY to a key that the producer has in its MILLRACE_API_KEYS',
  forbidden: 'set MILLRACE_API_KEY to a key with this scope: they stand in MILLRACE_API_KEYS of the producer',
};

const nextCommands: Readonly<Partial<Record<ErrorCode, string>>> = {
  run_not_found: 'runs   lists the runs',
  approval_not_pending: 'approvals   lists what waits for people',
  approval_expired: 'approvals   lists what waits for people',
  already_terminal: 'get RUN   shows how it ended',
  agent_manifest_invalid: 'agents check FOLDER   finds every problem at once',
  unknown_queue: 'doctor   shows the queues and who serves them',
};
