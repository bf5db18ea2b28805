import { RunError } from '../../shared/errors.ts';
import { formatUsd } from '../../shared/money.ts';
import { openClient } from './client.ts';
import { examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { positiveNumber } from './options.ts';
import { budgetLine } from './show/budget-line.ts';

interface ApproveOptions {
  readonly topUp?: number;
  readonly json?: true;
}

interface DenyOptions {
  readonly reason?: string;
  readonly json?: true;
}

const by = 'cli';

export const addApprove: AddCommand = (program, act) => {
  program
    .command('approve <run> [calls...]')
    .description('Let a run that waits for money go over the cap for one step, or give its budget more.')
    .option('--top-up <usd>', 'add so much to the budget that it waits for, instead of going over it', positiveNumber)
    .option('--json', 'print one JSON document')
    .addHelpText(
      'after',
      examples('millrace approve 01K9Z5N3T8R6V2X4B7C1D0E9FG', 'millrace approve 01K9Z5N3T8R6V2X4B7C1D0E9FG --top-up 5'),
    )
    .action(act(approve));
};

export const addDeny: AddCommand = (program, act) => {
  program
    .command('deny <run> [calls...]')
    .description('End a run that waits for money, with budget_exceeded.')
    .option('--reason <text>', 'why; kept in the log of the run')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('millrace deny 01K9Z5N3T8R6V2X4B7C1D0E9FG --reason "not worth it"'))
    .action(act(deny));
};

async function approve(
  cli: Cli,
  runId: string,
  calls: readonly string[],
  { topUp, json }: ApproveOptions,
): Promise<ExitCode> {
  refuseCalls(calls);
  await using mill = openClient(cli);
  const budget = topUp === undefined ? 'approve' : { topUpUsd: topUp };
  const answer = await mill.decide(runId, { budget }, { by });
  const said = answer.budget
    ? `${budgetLine(answer.budget)}\n${runId} goes on as soon as that is enough`
    : `${runId} goes on; its next step may pass the cap`;
  cli.stdout.write(json ? `${JSON.stringify(answer, null, 2)}\n` : `${said}\n`);
  return exitCodes.ok;
}

async function deny(
  cli: Cli,
  runId: string,
  calls: readonly string[],
  { reason, json }: DenyOptions,
): Promise<ExitCode> {
  refuseCalls(calls);
  await using mill = openClient(cli);
  const decision = { budget: 'reject', ...(reason !== undefined && { reason }) } as const;
  const answer = await mill.decide(runId, decision, { by });
  const spent = formatUsd(answer.run.costMicrocents);
  const said = `${runId} ends with budget_exceeded; it has spent ${spent}`;
  cli.stdout.write(json ? `${JSON.stringify(answer, null, 2)}\n` : `${said}\n`);
  return exitCodes.ok;
}

function refuseCalls(calls: readonly string[]): void {
  if (calls.length === 0) return;
  throw new RunError(
    'validation',
    `tool calls cannot be decided one by one (${calls.join(' ')}): name only the run, which waits for money`,
  );
}
