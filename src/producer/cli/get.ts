import { known, type Fact, table } from './show/paint.ts';
import { count, countOf, duration, oneLine, printable } from '../../shared/base/words.ts';
import { printJson, examples, exitCodes, type Cli } from './cli.ts';
import type { Attempt } from '../../shared/contract/journal/journal.ts';
import { formatUsd } from '../../shared/contract/money.ts';
import type { RunView } from '../../shared/contract/run.ts';
import type { ThreadView } from '../../shared/contract/thread/thread-items.ts';
import { asJson, command, flag } from './options/command.ts';
import { listTable, nameColumn, numberColumn, textColumn } from './show/list-table.ts';
import { openClient } from './options/open-client.ts';
import { callOf } from './show/call-of.ts';
import { stepLines } from './show/step-lines.ts';
import { decisionLine, askRows, waitsFor, waysOn } from './show/pending.ts';

export const addGet = command('get <run>', {
  description: 'Show the state of a run, its result, its usage and its cost.',
  options: [flag('--steps', 'show what it did: each step, its calls and their results'), asJson],
  help: examples(
    'millrace get 01K9Z5N3T8R6V2X4B7C1D0E9FG',
    'millrace get 01K9Z5N3T8R6V2X4B7C1D0E9FG --steps',
    'millrace get 01K9Z5N3T8R6V2X4B7C1D0E9FG --json | jq -r .result.text',
  ),
  work: async (cli, runId, { json, steps }) => {
    await using mill = openClient(cli);
    if (steps) {
      const done = await mill.steps(await mill.findRunId(runId));
      if (json) return printJson(cli, done);
      cli.stdout.write(stepLines(done, cli.stdout));
      return exitCodes.ok;
    }
    const view = await mill.get(await mill.findRunId(runId));
    // The thread only adds what the run waits for: what is wrong with a thread must not hide the run.
    const threadId = view.status === 'queued' ? view.thread : undefined;
    const thread = threadId === undefined ? undefined : await mill.threads.get(threadId).catch(() => undefined);
    if (json) return printJson(cli, view);
    cli.stdout.write(textOf(view, thread, cli));
    return exitCodes.ok;
  },
});

function textOf(view: RunView, thread: ThreadView | undefined, cli: Cli): string {
  const rows: Fact[] = [
    ['run', view.runId],
    ['agent', view.agent],
    ['status', view.cancelling ? `${view.status}, asked to stop` : view.status],
    ['error', view.error && `${view.error.code}: ${oneLine(view.error.message, 400)}`],
    ['incomplete', view.result?.incomplete && `it reached its limit ${view.result.incomplete.reason}`],
    ['thread', view.thread],
    ['execution', view.executionId],
    ['created', view.createdAt],
    ['duration', view.durationMs === undefined ? undefined : duration(view.durationMs)],
    ['tokens', view.usage && count(view.usage.total)],
    ['cost', formatUsd(view.costMicrocents)],
    ['steps', `${count(view.steps)} (a step is one model call and the tool calls that it asks for)`],
    ['recoveries', view.recoveries > 0 ? String(view.recoveries) : undefined],
    ['worker', view.worker],
    ['batch', view.batch],
    ['works for', view.parentRunId && `run ${view.parentRunId}, at depth ${view.depth}`],
    ['waits for', waitsFor(view) || undefined],
    ...turnRows(view, thread),
    ...childRows(view),
    ...askRows(view),
    ...(view.decisions ?? []).map((decision) => ['decided', decisionLine(decision)] as const),
    ...(view.result?.media ?? []).map(
      ({ handle, mediaType, bytes }) => ['media', `${handle} ${mediaType}, ${countOf(bytes, 'byte')}`] as const,
    ),
    ...Object.entries(view.metadata ?? {}).map(([key, value]) => [key, oneLine(value, 200)] as const),
  ];
  const ways = waysOn(view, callOf(cli));
  return [
    table(known(rows)),
    ways.length > 0 ? `${ways.join('\n')}\n` : '',
    attemptsOf(view, cli.stdout),
    view.result?.text ? `${printable(view.result.text)}\n` : '',
    unfinishedOf(view),
  ]
    .filter((part) => part !== '')
    .join('\n');
}

/** What a run left that has no answer. */
function unfinishedOf({ unfinished }: RunView): string {
  if (!unfinished) return '';
  const results = unfinished.results.map(({ toolName, content, isError, withheld }) => {
    const text = withheld ? 'secret, withheld' : oneLine(content, 200);
    return [isError ? `${toolName}, failed` : toolName, text] as const;
  });
  const earlier = unfinished.omitted > 0 ? [['earlier', countOf(unfinished.omitted, 'more result')] as const] : [];
  return [
    unfinished.text === '' ? '' : `Its last text before it ended:\n${printable(unfinished.text)}\n`,
    results.length === 0 ? '' : `What its tools answered:\n${table(known([...earlier, ...results]))}`,
  ]
    .filter((part) => part !== '')
    .join('\n');
}

/** Whose turn it is, where a run waits for its own. */
function turnRows({ runId }: RunView, thread: ThreadView | undefined): readonly (readonly [string, string])[] {
  if (thread?.lockOwner === undefined || thread.lockOwner === runId) return [];
  return [['waits behind', `run ${thread.lockOwner}, which owns the lock of thread ${thread.threadId}`]];
}

/** Its children, and what they wait for. */
function childRows({ children = [] }: RunView): readonly (readonly [string, string])[] {
  return children.map((run) => {
    const waits = waitsFor(run);
    return ['child', `run ${run.runId} of ${run.agent}: ${run.status}${waits === '' ? '' : `, waits for ${waits}`}`];
  });
}

const attemptColumns = [
  nameColumn('MODEL'),
  ...['ATTEMPTS', 'FAILED', 'TOKENS IN', 'TOKENS OUT', 'COST'].map(numberColumn),
  textColumn('LAST TROUBLE'),
];

/** Attempts, tokens and cost by model; the sums are those of the run. */
function attemptsOf({ attempts }: RunView, stream: Cli['stdout']): string {
  if (attempts.length === 0) return '';
  const byModel = Map.groupBy(attempts, ({ provider, model }) => `${provider}/${model}`);
  const rows = [...byModel].map(([name, of]) => {
    const made = of.filter(({ outcome }) => outcome !== 'skipped');
    const sum = (part: (attempt: Attempt) => number) => made.reduce((total, attempt) => total + part(attempt), 0);
    const last = of.findLast(({ outcome }) => outcome !== 'succeeded');
    return [
      name,
      count(made.length),
      count(made.filter(({ outcome }) => outcome === 'failed').length),
      count(sum(({ usage }) => (usage ? usage.input + usage.cached + usage.cacheWrite : 0))),
      count(sum(({ usage }) => usage?.output ?? 0)),
      formatUsd(sum(({ costMicrocents }) => costMicrocents)) +
        (made.every(({ priced }) => priced) ? '' : ' (unpriced)'),
      oneLine(last?.error ? `${last.error.kind}: ${last.error.message}` : (last?.skipReason ?? ''), 80),
    ];
  });
  return listTable(attemptColumns, rows, stream);
}
