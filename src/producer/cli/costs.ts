import { printJson, examples, exitCodes, type Cli } from './cli.ts';
import { defined } from '../../shared/base/collections.ts';
import { InvalidArgumentError } from 'commander';
import { formatUsd } from '../../shared/contract/money.ts';
import { costGroup, type CostGroup, type CostGroupRow, type CostReport } from '../../shared/contract/report/costs.ts';
import { asJson, command, value } from './options/command.ts';
import { day, dayForms } from './options/when.ts';
import { openClient } from './options/open-client.ts';
import { listTable, nameColumn, numberColumn } from './show/list-table.ts';
import { dim } from './show/paint.ts';
import { count } from '../../shared/base/words.ts';

export const addCosts = command('costs', {
  description: 'Show what model calls cost, by day (UTC), agent and model.',
  options: [
    value('--from <day>', 'first day (default: six days before the last)', (text) => day(text)),
    value('--to <day>', 'last day, included (default: today)', (text) => day(text)),
    value(
      '--group-by <fields>',
      `any of ${costGroup.options.join(', ')}, with commas (default: day,agent,model)`,
      groups,
    ),
    asJson,
  ],
  help:
    examples(
      'millrace costs --group-by model',
      'millrace costs --from yesterday',
      'millrace costs --from 2026-11-01 --group-by day --json',
    ) + `\n\nA day is ${dayForms}. Days are UTC.`,
  work: async (cli, { from, to, groupBy: by, json }) => {
    await using mill = openClient(cli);
    const report = await mill.costs(defined({ from, to, by }));
    if (json) return printJson(cli, report);
    cli.stdout.write(textOf(report, (await mill.whoami()).tenant, cli.stdout));
    for (const note of notesOn(report)) cli.stderr.write(`${dim(cli.stderr, note)}\n`);
    return exitCodes.ok;
  },
});

function textOf({ from, to, by, rows, totals }: CostReport, tenant: string, stream: Cli['stdout']): string {
  const named = by.map((group) => group.toUpperCase());
  const sums = ['ATTEMPTS', 'TOKENS IN', 'CACHED', 'TOKENS OUT', 'COST'];
  const columns = [...named.map(nameColumn), ...sums.map(numberColumn)];
  const lines = rows.map((row) => [...by.map((group) => cellOf(row, group)), ...sumsOf(row)]);
  const total = [...by.map((_, index) => (index === 0 ? 'total' : '')), ...sumsOf(totals)];
  return `${tenant}, ${from} to ${to} (UTC)\n${listTable(columns, [...lines, total], stream)}`;
}

function cellOf(row: CostGroupRow, group: CostGroup): string {
  return (group === 'model' ? `${row.provider}/${row.model}` : row[group]) ?? '';
}

function sumsOf(row: CostReport['totals']): string[] {
  const { attempts, input, cached, cacheWrite, output, costMicrocents, unconfirmedMicrocents } = row;
  const unconfirmed = unconfirmedMicrocents > 0 ? ` + ${formatUsd(unconfirmedMicrocents)} unconfirmed` : '';
  return [
    count(attempts),
    count(input + cacheWrite),
    count(cached),
    count(output),
    `${formatUsd(costMicrocents)}${unconfirmed}`,
  ];
}

function* notesOn({ totals }: CostReport): Generator<string> {
  if (totals.unconfirmedMicrocents > 0)
    yield 'Unconfirmed: calls that broke off before they reported their usage, at the most that they can have cost.';
  if (totals.unpricedAttempts > 0)
    yield `Attempts without a known price, which count as 0: ${count(totals.unpricedAttempts)}. MILLRACE_PRICES can give it.`;
}

function groups(text: string): CostGroup[] {
  return text.split(',').map((name) => {
    const group = costGroup.safeParse(name.trim());
    if (!group.success) throw new InvalidArgumentError(`Not one of ${costGroup.options.join(', ')}.`);
    return group.data;
  });
}
