import { printJson, examples, exitCodes, type AddCommand, type Cli, type ExitCode } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { Argument, type Command } from 'commander';
import { RunError } from '../../shared/base/errors.ts';
import {
  budgetScope,
  type BudgetScope,
  type BudgetView,
  type OnExceed,
  formatUsd,
} from '../../shared/contract/money.ts';
import type { Millrace } from '../client/millrace.ts';
import { openClient } from './options/open-client.ts';
import { onExceedOption, positiveNumber } from './options/arguments.ts';
import { count } from '../../shared/base/words.ts';

interface Options {
  readonly json?: true;
}

export const addBudget: AddCommand = (program, act) => {
  const budget = program
    .command('budget')
    .description('Show and change what a batch, a run or the tenant may spend.')
    .addHelpText(
      'after',
      examples(
        'millrace budget list',
        'millrace budget get batch nightly',
        'millrace budget set batch nightly 10 --on-exceed pause_for_approval',
        'millrace budget top-up batch nightly 5',
      ),
    );
  budget
    .command('list')
    .description('List the account of the tenant, batches that a budget was set for, and accounts that runs wait for.')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples('millrace budget list'))
    .action(act(list));
  account(
    budget,
    'get',
    'Show cap, what is spent and reserved, and how many runs wait for more.',
    'millrace budget get batch nightly',
  ).action(act(get));
  account(budget, 'set', 'Set the cap of a batch, in dollars; top-ups stay.', 'millrace budget set batch nightly 10')
    .argument('<usd>', 'the cap', positiveNumber)
    .addOption(onExceedOption('the cap'))
    .action(act(set));
  account(
    budget,
    'top-up',
    'Add dollars; runs that wait for them continue by themselves.',
    'millrace budget top-up batch nightly 5',
  )
    .argument('<usd>', 'how much', positiveNumber)
    .option('--key <key>', 'the same key again adds nothing')
    .action(act(topUp));
};

function account(budget: Command, name: string, description: string, example: string): Command {
  return budget
    .command(name)
    .description(description)
    .addArgument(new Argument('<scope>', 'whose money').choices(budgetScope.options))
    .argument('<id>', 'batch id, run id, or name of the tenant')
    .option('--json', 'print one JSON document')
    .addHelpText('after', examples(example));
}

async function list(cli: Cli, { json }: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const budgets = await mill.budgets.list();
  if (json) return printJson(cli, budgets);
  for (const view of budgets) cli.stdout.write(`${budgetLine(view)}\n`);
  return exitCodes.ok;
}

async function get(cli: Cli, scope: BudgetScope, id: string, options: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  return show(cli, await mill.budgets.get(scope, await accountId(mill, scope, id)), options);
}

async function set(
  cli: Cli,
  scope: BudgetScope,
  id: string,
  usd: number,
  options: Options & { onExceed?: OnExceed },
): Promise<ExitCode> {
  if (scope !== 'batch')
    throw new RunError(
      'validation',
      'only a batch has a budget that is set here: a run brings its own, a tenant’s is in MILLRACE_TENANTS',
    );
  const { onExceed } = options;
  await using mill = openClient(cli);
  const view = await mill.budgets.set(scope, id, defined({ maxCostUsd: usd, onExceed }));
  return show(cli, view, options);
}

async function topUp(
  cli: Cli,
  scope: BudgetScope,
  id: string,
  usd: number,
  options: Options & { key?: string },
): Promise<ExitCode> {
  const { key } = options;
  await using mill = openClient(cli);
  const account = await accountId(mill, scope, id);
  const view = await mill.budgets.topUp(scope, account, { usd }, key === undefined ? {} : { idempotencyKey: key });
  return show(cli, view, options);
}

/** A run may be named by the beginning of its id. */
async function accountId(mill: Millrace, scope: BudgetScope, id: string): Promise<string> {
  return scope === 'run' ? await mill.findRunId(id) : id;
}

function show(cli: Cli, view: BudgetView, { json }: Options): ExitCode {
  if (json) return printJson(cli, view);
  cli.stdout.write(`${budgetLine(view)}\n`);
  return exitCodes.ok;
}

const ends = { fail: 'fails a run', pause_for_approval: 'pauses a run', warn: 'only warns' } as const;

/** The state of an account in one line. */
export function budgetLine(view: BudgetView): string {
  const { scope, id, window, windowStart, capMicrocents, spentMicrocents, reservedMicrocents, waiting } = view;
  const cap = capMicrocents === undefined ? 'spent, no cap' : `of ${formatUsd(capMicrocents)} spent`;
  return [
    `${scope} ${id}${window === 'total' ? '' : ` (${window} ${windowStart})`}: ${formatUsd(spentMicrocents)} ${cap}`,
    reservedMicrocents > 0 ? `${formatUsd(reservedMicrocents)} reserved for calls under way` : '',
    waiting > 0 ? `${count(waiting)} waiting for it` : '',
    capMicrocents === undefined ? '' : `passing it ${ends[view.onExceed]}`,
  ]
    .filter((part) => part !== '')
    .join(', ');
}
