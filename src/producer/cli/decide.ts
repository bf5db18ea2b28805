import { printJson, examples, exitCodes, type Cli, type ExitCode } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { DecisionInput } from '../../shared/contract/control.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { RunView } from '../../shared/contract/run.ts';
import type { DecisionAnswer } from '../client/decide.ts';
import { approval, denial, questionOf, type ApproveCalls, type DenyCalls } from '../client/run-handle.ts';
import { asJson, command, text, value, type ValuesOf } from './options/command.ts';
import { decider, openClient } from './options/open-client.ts';
import { positiveNumber } from './options/arguments.ts';
import { budgetLine } from './budget.ts';
import { whatFollows } from './show/pending.ts';

const run = '01K9Z5N3T8R6V2X4B7C1D0E9FG';
const maxFileBytes = 1_048_576;

const by = text('--by <name>', 'who decides (default: the user of this machine, or the API key)');
const denyOptions = [text('--reason <text>', 'why; the model gets it'), by, asJson];
const approveOptions = [
  text('--args <json>', 'run the call with these arguments instead; @file reads them from a file'),
  text('--answer <text>', 'answer a question, or give the result of a call that was carried out elsewhere'),
  value('--top-up <usd>', 'add so much to the budget that it waits for, instead of going over it', positiveNumber),
  by,
  text('--reason <text>', 'why; kept with the decision'),
  asJson,
];
type DecideFlags = ValuesOf<typeof denyOptions>;
type ApproveFlags = ValuesOf<typeof approveOptions>;

export const addApprove = command('approve <run> [calls...]', {
  description: 'Grant the calls that a run waits for, answer its question, or let it go over its budget for one step.',
  options: approveOptions,
  help: `\nWithout calls everything that the run waits for is granted. \`millrace approvals\` lists what waits.\n${examples(
    `millrace approve ${run}`,
    `millrace approve ${run} call_1 --args '{"amount":50}'`,
    `millrace approve ${run} call_2 --answer "the blue one"`,
    `millrace approve ${run} --top-up 5`,
  )}`,
  work: approve,
});

export const addDeny = command('deny <run> [calls...]', {
  description: 'Deny the calls that a run waits for, or end a run that waits for money with budget_exceeded.',
  options: denyOptions,
  help: `\nWithout calls everything that the run waits for is denied.\n${examples(
    `millrace deny ${run} --reason "not this customer"`,
    `millrace deny ${run} call_1`,
  )}`,
  work: deny,
});

async function approve(cli: Cli, beginning: string, calls: readonly string[], flags: ApproveFlags): Promise<ExitCode> {
  refuseContradictions(calls, flags);
  const updatedArgs = flags.args === undefined ? undefined : readArgs(cli, flags.args);
  await using mill = openClient(cli);
  const runId = await mill.findRunId(beginning);
  const before = await mill.get(runId);
  const asked: ApproveCalls = defined({ ...chosen(calls, flags), updatedArgs });
  const decision =
    flags.topUp === undefined ? grantOrAnswer(before, asked, flags) : { budget: { topUpUsd: flags.topUp } };
  return printDecision(
    cli,
    before,
    decision,
    await mill.decide(runId, decision, defined({ by: decider(cli, flags.by) })),
    flags,
  );
}

async function deny(cli: Cli, beginning: string, calls: readonly string[], flags: DecideFlags): Promise<ExitCode> {
  await using mill = openClient(cli);
  const runId = await mill.findRunId(beginning);
  const before = await mill.get(runId);
  const decision = denial(before, chosen(calls, flags));
  return printDecision(
    cli,
    before,
    decision,
    await mill.decide(runId, decision, defined({ by: decider(cli, flags.by) })),
    flags,
  );
}

function grantOrAnswer(before: RunView, asked: ApproveCalls, { answer, reason }: ApproveFlags): DecisionInput {
  if (answer === undefined) return approval(before, asked);
  const [toolCallId = questionOf(before)] = asked.calls ?? [];
  return { answers: [{ toolCallId, answer }], reason };
}

function chosen(calls: readonly string[], { reason }: DecideFlags): DenyCalls {
  return defined({ calls: calls.length > 0 ? calls : undefined, reason });
}

function printDecision(
  cli: Cli,
  before: RunView,
  decision: DecisionInput,
  answer: DecisionAnswer,
  { json }: DecideFlags,
): ExitCode {
  if (json) return printJson(cli, answer);
  const lines = answer.budget
    ? [budgetLine(answer.budget), `${before.runId} goes on as soon as that is enough`]
    : whatFollows(before, decision, answer.run);
  cli.stdout.write(lines.map((line) => `${line}\n`).join(''));
  return exitCodes.ok;
}

function refuseContradictions(calls: readonly string[], { args, answer, topUp }: ApproveFlags): void {
  const kinds = [args !== undefined && '--args', answer !== undefined && '--answer', topUp !== undefined && '--top-up'];
  const given = kinds.filter((flag) => flag !== false);
  if (given.length > 1) throw new RunError('validation', `${given.join(' and ')} cannot be given together`);
  if (topUp !== undefined && calls.length > 0) {
    throw new RunError('validation', '--top-up is for a run that waits for money: name no calls');
  }
  if (answer !== undefined && calls.length > 1) {
    throw new RunError('validation', `--answer is for one call, not for ${calls.join(' and ')}`);
  }
}

function readArgs(cli: Cli, given: string): Record<string, unknown> {
  const path = given.startsWith('@') ? resolve(cli.cwd, given.slice(1)) : undefined;
  const value = path === undefined ? parsed(given, '--args:') : parsed(readFile(path), `--args: ${path}`);
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new RunError('validation', '--args: must be a JSON object with the arguments of the call');
}

function readFile(path: string): string {
  try {
    const text = readFileSync(path, 'utf8');
    if (text.length <= maxFileBytes) return text;
  } catch (cause) {
    throw new RunError('validation', `--args: ${path} cannot be read`, { cause });
  }
  throw new RunError('validation', `--args: ${path} is larger than 1 MB`);
}

/** The error has the line and column of what is wrong. */
function parsed(text: string, where: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RunError('validation', `${where} is not JSON: ${(cause as Error).message}`, { cause });
  }
}
