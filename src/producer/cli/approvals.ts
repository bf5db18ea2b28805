import { collect, printJson, examples, exitCodes, type Cli, type ExitCode, shownJson } from './cli.ts';
import { command, flag, text, type ValuesOf } from './options/command.ts';
import { defined } from '../../shared/base/collections.ts';
import type { ApprovalView } from '../../shared/contract/inbox/approvals.ts';
import type { Millrace } from '../client/millrace.ts';
import { Stop, untilStopped } from '../client/stop-signal.ts';
import { openClient } from './options/open-client.ts';
import { dim } from './show/paint.ts';
import { duration, oneLine } from '../../shared/base/words.ts';
import { changeLines, flowLines, waitsFor } from './show/pending.ts';

const maxShown = 1_000;
/** Between two reads: expiry and money emit no event. */
const lookMs = 5_000;

const options = [
  text('--agent <id>', 'only runs of this agent'),
  flag('--oldest', 'those first that have waited longest'),
  flag('--follow', 'continue, and print what is new'),
  flag('--json', 'print one JSON document; with --follow one line for each'),
];
type Options = ValuesOf<typeof options>;

export const addApprovals = command('approvals', {
  description: 'List what runs wait for people to decide, newest first.',
  options,
  help: examples('millrace approvals', 'millrace approvals --agent support --follow'),
  work: approvals,
});

async function approvals(cli: Cli, asked: Options): Promise<ExitCode> {
  await using mill = openClient(cli);
  const first = await waiting(cli, mill, asked);
  if (asked.follow) return await watch(cli, mill, asked, first);
  if (asked.json) return printJson(cli, first);
  if (first.length === 0) cli.stderr.write('Nothing waits for people.\n');
  for (const each of first) cli.stdout.write(textOf(cli, each));
  return exitCodes.ok;
}

async function waiting(
  cli: Cli,
  mill: Millrace,
  { agent, oldest }: Partial<Pick<Options, 'agent' | 'oldest'>>,
): Promise<ApprovalView[]> {
  const order = oldest ? 'oldest' : undefined;
  const { found } = await collect(cli, maxShown, async (range) => {
    const { approvals: items, cursor } = await mill.approvals(defined({ ...range, agent, order }));
    return { items, cursor };
  });
  return found;
}

/** Ends only by an interrupt. Oldest first, so that what is new comes last. */
async function watch(cli: Cli, mill: Millrace, { agent, json }: Options, first: ApprovalView[]): Promise<ExitCode> {
  cli.stderr.write(`${dim(cli.stderr, 'Watching what waits for people; Ctrl-C ends it.')}\n`);
  const { interrupted } = cli;
  let shown = new Set<string>();
  const show = (found: readonly ApprovalView[]) => {
    const fresh = found.filter((each) => !shown.has(keyOf(each))).toReversed();
    for (const each of fresh) cli.stdout.write(json ? shownJson(each) : textOf(cli, each));
    shown = new Set(found.map(keyOf));
  };
  let ring = () => {};
  // The feed only shortens the wait for the next look. That finds what the feed misses, and throws what is wrong with the client.
  const listening = listen(mill, interrupted, () => ring()).catch(() => {});
  show(first);
  while (!interrupted.aborted) {
    const { promise: rung, resolve } = Promise.withResolvers<void>();
    ring = resolve;
    show(await waiting(cli, mill, defined({ agent })));
    using stop = new Stop({ signals: [interrupted], afterMs: lookMs });
    await untilStopped(rung, stop.signal);
  }
  await listening;
  return exitCodes.interrupted;
}

/** Calls back whenever a run begins to wait. */
async function listen(mill: Millrace, signal: AbortSignal, onSuspended: () => void): Promise<void> {
  for await (const { type } of mill.firehose({ signal })) if (type === 'run.suspended') onSuspended();
}

function keyOf({ runId, id, requestedAt }: ApprovalView): string {
  return `${runId} ${id} ${requestedAt}`;
}

function textOf({ stdout }: Cli, each: ApprovalView): string {
  const waited = duration(Math.max(0, Date.now() - Date.parse(each.requestedAt)));
  const { trust, sideEffectClass, sensitivity, sandboxPolicy } = each.classification ?? {};
  const classes = [trust, sideEffectClass, sensitivity, sandboxPolicy].filter((one) => one !== undefined).join(', ');
  const needs = (each.approvers ?? 1) > 1 ? `needs ${each.approvers} people` : '';
  const votes = each.votes.map(
    ({ by, granted }) => `${oneLine(by ?? '', 80)} ${granted === false ? 'denied' : 'approved'}`,
  );
  const details = [
    each.inputPreview === undefined ? '' : `asked: ${oneLine(each.inputPreview, 160)}`,
    each.args === undefined ? '' : oneLine(JSON.stringify(each.args), 400),
    ...changeLines(each),
    ...flowLines(each),
    [classes, needs, ...votes].filter((part) => part !== '').join('; '),
    each.expiresAt === undefined ? '' : `expires ${each.expiresAt}`,
  ].filter((line) => line !== '');
  const head = `${each.runId}  ${each.agent}  ${waitsFor({ pending: [each] })}  ${dim(stdout, `for ${waited}`)}`;
  return [head, ...details.map((line) => `    ${line}`), ''].join('\n');
}
