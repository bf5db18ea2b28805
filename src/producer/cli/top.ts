import { count, duration, oneLine } from '../../shared/base/words.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import type { SeriesPoint, SeriesReport } from '../../shared/contract/report/series.ts';
import type { QueueState } from '../client/enqueue.ts';
import type { Millrace } from '../client/millrace.ts';
import { examples, exitCodes, pause, printJson, unlessAway, type Cli, type ExitCode } from './cli.ts';
import { asJson, command, flag, value } from './options/command.ts';
import { openClient } from './options/open-client.ts';
import { since, timeForms } from './options/when.ts';
import { listTable, nameColumn, numberColumn } from './show/list-table.ts';
import { bold, dim, yellow } from './show/paint.ts';

const everyMs = 2_000;
const maxNames = 10;
const maxNameChars = 40;

export const addTop = command('top', {
  description: 'Watch what runs do now: how many begin, end and fail, their waits, tokens and cost.',
  options: [
    value('--since <time>', 'from then on (default: an hour ago)', (text) => since(text)),
    flag('--once', 'print it once and end; so it is where the output is no terminal'),
    asJson,
  ],
  help:
    examples('millrace top', 'millrace top --since 7d --once', 'millrace top --json') +
    `\n\nA time of the last 7 days is ${timeForms}. Within the last hour numbers are of steps of 10 seconds, else of 10 minutes.\nTokens and cost are counted when a run ends. Producers count: without one the numbers stand still.`,
  work: async (cli, { since: from, once, json }) => {
    await using mill = openClient(cli);
    if (json) return printJson(cli, await mill.series(from === undefined ? {} : { from }));
    if (once || !cli.stdout.isTTY) {
      cli.stdout.write(await screenOf(cli, mill, from));
      return exitCodes.ok;
    }
    return await watch(cli, mill, from);
  },
});

/** Ends only by an interrupt. */
async function watch(cli: Cli, mill: Millrace, from: string | undefined): Promise<ExitCode> {
  const { stdout, interrupted } = cli;
  let shown = '';
  const ageMs = from === undefined ? undefined : Date.now() - Date.parse(from);
  while (!interrupted.aborted) {
    const start = ageMs === undefined ? undefined : new Date(Date.now() - ageMs).toISOString();
    const next = await screenOf(cli, mill, start).catch(unlessAway);
    // What was there stays while Redis is away.
    shown = next ?? shown;
    const note = next === undefined ? yellow(stdout, 'not reachable, trying again') : dim(stdout, 'Ctrl-C ends it');
    const rows = shown.split('\n').slice(0, Math.max(5, (stdout.rows || 24) - 2));
    stdout.write(`\u001b[H\u001b[2J${rows.join('\n')}\n${note}\n`);
    await pause(everyMs, interrupted);
  }
  return exitCodes.interrupted;
}

async function screenOf(cli: Cli, mill: Millrace, from: string | undefined): Promise<string> {
  const [report, queues] = await Promise.all([mill.series(from === undefined ? {} : { from }), mill.queueDepths()]);
  const { stdout } = cli;
  return [
    bold(stdout, `runs of the tenant, ${report.from.slice(0, 16).replace('T', ' ')} to now (UTC)`),
    queuesLine(queues),
    '',
    listTable(['', ...windowsOf(report).map(({ name }) => name)].map(headOf), rowsOf(report), stdout),
    namesTable(report, stdout),
  ].join('\n');
}

const headOf = (head: string, index: number) => (index === 0 ? nameColumn(head) : numberColumn(head));

function queuesLine(queues: Readonly<Record<string, QueueState>>): string {
  const parts = Object.entries(queues).map(
    ([name, { waiting, active, delayed, workers }]) =>
      `${name}: ${count(waiting)} waiting, ${count(active)} active, ${count(delayed)} delayed, ${workers === 1 ? 'one worker' : `${workers} workers`}`,
  );
  return parts.length === 0 ? 'no queue has been used yet' : parts.join(' · ');
}

interface Window {
  readonly name: string;
  readonly seconds: number;
  readonly points: readonly SeriesPoint[];
}

/** The last steps together. The newest one is not over: it is in all of them but the first, which is the one before. */
function windowsOf({ stepS, points }: SeriesReport): readonly Window[] {
  const names = stepS < 600 ? { '10 s': 1, '1 min': 6, '10 min': 60 } : { '10 min': 1, '1 h': 6, '1 day': 144 };
  const shorter = Object.entries(names)
    .filter(([, steps]) => steps < points.length)
    .map(([name, steps]) => ({
      name,
      seconds: steps * stepS,
      points: steps === 1 ? points.slice(-2, -1) : points.slice(-steps),
    }));
  return [...shorter, { name: 'all', seconds: points.length * stepS, points }];
}

function rowsOf(report: SeriesReport): string[][] {
  const windows = windowsOf(report);
  const row = (name: string, cell: (window: Window) => string) => [name, ...windows.map(cell)];
  const total = (field: NumberField) => (window: Window) => count(sumOf(window, field));
  const errors = Object.entries(totalsOf(report.points.map((point) => point.errors))).sort(([, a], [, b]) => b - a);
  return [
    row('accepted', total('queued')),
    row('started', total('started')),
    row('ended', total('ended')),
    row('failed', total('failed')),
    ...errors
      .slice(0, maxNames)
      .map(([code]) => row(`  ${code}`, ({ points }) => count(totalsOf(points.map((p) => p.errors))[code] ?? 0))),
    row('wait for a worker, mean', (window) => mean(window, 'queueWaitMs', 'started')),
    row('  the longest', ({ points }) => duration(Math.max(0, ...points.map((point) => point.maxQueueWaitMs)))),
    row('duration of a run, mean', (window) => mean(window, 'durationMs', 'ended')),
    row('tokens in, a second', (window) => rate(sumOf(window, 'inputTokens') / window.seconds)),
    row('tokens out, a second', (window) => rate(sumOf(window, 'outputTokens') / window.seconds)),
    row('tool calls', total('toolCalls')),
    row('  with an error', total('toolErrors')),
    row('cost', (window) => formatUsd(sumOf(window, 'costMicrocents'))),
    row('  a minute', (window) => formatUsd(Math.round((sumOf(window, 'costMicrocents') * 60) / window.seconds))),
  ];
}

type NumberField = Exclude<keyof SeriesPoint, 'at' | 'endedBy' | 'errors'>;

function sumOf({ points }: Window, field: NumberField): number {
  return points.reduce((sum, point) => sum + point[field], 0);
}

function totalsOf(parts: readonly Readonly<Record<string, number>>[]): Readonly<Record<string, number>> {
  const sums = new Map<string, number>();
  for (const part of parts) for (const [name, by] of Object.entries(part)) sums.set(name, (sums.get(name) ?? 0) + by);
  return Object.fromEntries(sums);
}

function mean(window: Window, field: NumberField, of: NumberField): string {
  const among = sumOf(window, of);
  return among === 0 ? '–' : duration(sumOf(window, field) / among);
}

function rate(perSecond: number): string {
  return perSecond >= 100 ? count(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** Agents and models of the whole time. */
function namesTable({ agents, models }: SeriesReport, stream: Cli['stdout']): string {
  const named = (name: string) => oneLine(name, maxNameChars);
  const rows = agents
    .slice(0, maxNames)
    .map(({ agent, ended, failed, toolErrors, inputTokens, outputTokens, costMicrocents }) => [
      named(agent),
      ...[ended, failed, toolErrors, inputTokens, outputTokens].map(count),
      formatUsd(costMicrocents),
    ]);
  const spent = models
    .slice(0, maxNames)
    .map(({ model, attempts, inputTokens, outputTokens, costMicrocents }) => [
      named(model),
      ...[attempts, inputTokens, outputTokens].map(count),
      formatUsd(costMicrocents),
    ]);
  const heads = (...all: string[]) => all.map(headOf);
  const byAgent = heads('AGENT', 'ENDED', 'FAILED', 'TOOL ERRORS', 'TOKENS IN', 'TOKENS OUT', 'COST');
  const byModel = heads('MODEL', 'ATTEMPTS', 'TOKENS IN', 'TOKENS OUT', 'COST');
  return [
    rows.length > 0 ? listTable(byAgent, rows, stream) : '',
    spent.length > 0 ? listTable(byModel, spent, stream) : '',
  ].join(rows.length > 0 && spent.length > 0 ? '\n' : '');
}
