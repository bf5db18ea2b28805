import { addAbortSignal } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { RunError } from '../../../shared/base/errors.ts';
import type { Millrace } from '../../client/millrace.ts';
import type { RunHandle } from '../../client/run-handle.ts';
import { exitCodes, shownJson, type Cli, type ExitCode } from '../cli.ts';
import { budgetFrom, deadlineFrom, deadlineOption, keyValue, onExceedOption, positiveNumber } from './arguments.ts';
import { flag, text, value, type ValuesOf } from './command.ts';
import { dim } from '../show/paint.ts';
import { watchRun, type WatchOptions } from '../show/watch-run.ts';

/** Options of every command that starts one run. */
export const startOptions = [
  text('--agent-version <version>', 'only begin with this version of the agent'),
  text('--execution-id <id>', 'the same id and body again attach to the same run'),
  value('--max-cost <usd>', 'spend no more than this on the run', positiveNumber),
  onExceedOption(),
  deadlineOption(),
  value('--metadata <key=value>', 'attach a value to the run; may be repeated', keyValue),
  value('--timeout <seconds>', 'wait at most so long; the run itself goes on (exit 1)', positiveNumber),
  flag('--detach', 'print the run id and do not wait'),
  flag('--json', 'print one event a line'),
];
type StartOptions = ValuesOf<typeof startOptions>;

/** The fields of the run that they set. Throws `validation`. */
export function requestFrom(options: StartOptions) {
  const { executionId, agentVersion, metadata } = options;
  return { executionId, agentVersion, budget: budgetFrom(options), ...deadlineFrom(options), metadata };
}

/** Prints the warnings of the run, and follows it to its end, or only prints its id. */
export async function followOrDetach(
  cli: Cli,
  mill: Millrace,
  { runId, status, attached, warnings }: RunHandle,
  { detach, json, timeout, dialect }: StartOptions & Pick<WatchOptions, 'dialect'>,
): Promise<ExitCode> {
  if (detach) {
    for (const warning of warnings) cli.stderr.write(`${warning}\n`);
    cli.stdout.write(json ? shownJson({ runId, status, attached, warnings }) : `${runId}\n`);
    return exitCodes.ok;
  }
  // First of all: whatever happens to this terminal, the run can be found again. As JSON every event has it.
  if (!json && dialect === undefined) cli.stderr.write(`${dim(cli.stderr, `run ${runId}`)}\n`);
  for (const warning of warnings) cli.stderr.write(`${warning}\n`);
  return await watchRun(cli, mill, runId, {
    json: json === true,
    dialect,
    timeoutMs: timeout === undefined ? undefined : timeout * 1_000,
  });
}

/**
 * What was given, or all of stdin: for `-`, and where none was given and stdin is a pipe or a file. `how` says how to give it,
 * for the error where there is none or it is empty. Throws `validation`.
 */
export async function inputFrom(cli: Cli, given: string | undefined, how: string): Promise<string> {
  const input = given === undefined || given === '-' ? await stdinOf(cli, given === '-') : given;
  if (input.trim() !== '') return input;
  throw new RunError('validation', `there is no input: ${how}`);
}

/** A terminal is read only when the user asks for it. */
async function stdinOf(cli: Cli, isAsked: boolean): Promise<string> {
  if (cli.stdin.isTTY && !isAsked) return '';
  // A pipe without a writer looks like a command that hangs.
  const silent = setTimeout(() => cli.stderr.write('Reading the input from stdin …\n'), silentMs);
  try {
    return await textOf(addAbortSignal(cli.interrupted, cli.stdin));
  } finally {
    clearTimeout(silent);
  }
}

const silentMs = 2_000;
