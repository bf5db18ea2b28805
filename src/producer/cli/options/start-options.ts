import type { Command } from 'commander';
import { text } from 'node:stream/consumers';
import { RunError } from '../../../shared/base/errors.ts';
import type { Millrace } from '../../client/millrace.ts';
import type { RunHandle } from '../../client/run-handle.ts';
import { exitCodes, type Cli, type ExitCode } from '../cli.ts';
import {
  budgetFrom,
  deadlineFrom,
  deadlineOption,
  keyValue,
  onExceedOption,
  positiveNumber,
  type OnExceedName,
} from './arguments.ts';
import { watchRun, type WatchOptions } from '../show/watch-run.ts';

/** Options of every command that starts one run. */
export interface StartOptions {
  readonly executionId?: string;
  readonly maxCost?: number;
  readonly onExceed?: OnExceedName;
  readonly deadline?: number;
  readonly metadata?: Record<string, string>;
  readonly timeout?: number;
  readonly detach?: true;
  readonly json?: true;
}

export function withStartOptions(command: Command): Command {
  return command
    .option('--execution-id <id>', 'the same id and body again attach to the same run')
    .option('--max-cost <usd>', 'spend no more than this on the run', positiveNumber)
    .addOption(onExceedOption())
    .addOption(deadlineOption())
    .option('--metadata <key=value>', 'attach a value to the run; may be repeated', keyValue)
    .option('--timeout <seconds>', 'wait at most so long; the run itself goes on (exit 1)', positiveNumber)
    .option('--detach', 'print the run id and do not wait')
    .option('--json', 'print one event a line');
}

/** The fields of the run that they set. Throws `validation`. */
export function requestFrom(options: StartOptions) {
  const { executionId, metadata } = options;
  return { executionId, budget: budgetFrom(options), ...deadlineFrom(options), metadata };
}

/** Prints the warnings of the run, and follows it to its end, or only prints its id. */
export async function followOrDetach(
  cli: Cli,
  mill: Millrace,
  { runId, status, attached, warnings }: RunHandle,
  { detach, json, timeout, dialect }: StartOptions & Pick<WatchOptions, 'dialect'>,
): Promise<ExitCode> {
  for (const warning of warnings) cli.stderr.write(`${warning}\n`);
  if (detach) {
    cli.stdout.write(`${json ? JSON.stringify({ runId, status, attached, warnings }) : runId}\n`);
    return exitCodes.ok;
  }
  return await watchRun(cli, mill, runId, {
    json: json === true,
    dialect,
    timeoutMs: timeout === undefined ? undefined : timeout * 1_000,
  });
}

/** What was given, or all of stdin for `-` and where stdin is not a terminal. `how` is the advice where there is neither. */
export async function inputFrom(cli: Cli, given: string | undefined, how: string): Promise<string> {
  if (given !== undefined && given !== '-') return given;
  if (given === undefined && cli.stdin.isTTY) throw new RunError('validation', `there is no input: ${how}`);
  return await text(cli.stdin);
}
