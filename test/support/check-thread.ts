import { expect } from 'vitest';
import type { Millrace, RunView, ThreadExportLine, ThreadItem } from '../../src/producer/index.ts';
import { runIdForExecution } from '../../src/shared/base/ids.ts';
import { followUpId } from '../../src/shared/state/run/control/inbox.ts';
import type { Sent } from './talk.ts';

type LogLine = Exclude<ThreadExportLine, { t: 'thread' }>;

/** A thread as the outside sees it once it is quiet. */
export interface SeenThread {
  readonly threadId: string;
  /** Its messages. */
  readonly items: readonly ThreadItem[];
  /** Its log, whole. */
  readonly entries: readonly LogLine[];
  /** All runs that ever belonged to it, by id. */
  readonly runs: ReadonlyMap<string, RunView>;
}

export async function seeThread(mill: Millrace, threadId: string, runs: readonly RunView[]): Promise<SeenThread> {
  const items: ThreadItem[] = [];
  for (let after: number | undefined = 0; after !== undefined;) {
    const page: Awaited<ReturnType<Millrace['threads']['messages']>> = await mill.threads.messages(threadId, {
      after,
      limit: 200,
    });
    items.push(...page.messages);
    after = page.next;
  }
  const entries: LogLine[] = [];
  for await (const line of mill.threads.export(threadId)) if (line.t !== 'thread') entries.push(line);
  const mine = runs.filter(({ thread }) => thread === threadId);
  return { threadId, items, entries, runs: new Map(mine.map((run) => [run.runId, run])) };
}

/** What holds for every thread whose runs have ended, whatever was done to them. `sent` are the messages for it. */
export function checkThread(seen: SeenThread, sent: readonly Sent[]): void {
  checkTurns(seen);
  checkCallsAnswered(seen);
  checkAnswers(seen);
  const gone = checkRollbacks(seen, sent);
  for (const message of sent) checkSaid(seen, message, gone);
  checkOrder(seen, sent);
}

/** The entries of a run stand together: first the message of its user, last how it ended. */
function checkTurns({ threadId, items, entries }: SeenThread): void {
  expect(
    items.some(({ live }) => live),
    `thread ${threadId} is quiet`,
  ).toBe(false);
  const turns: LogLine[][] = [];
  for (const entry of entries) {
    const last = turns.at(-1);
    if (last?.[0]?.runId === entry.runId) last.push(entry);
    else turns.push([entry]);
  }
  const ids = turns.map(([first]) => first?.runId);
  expect(new Set(ids).size, `turns of thread ${threadId} do not interleave: ${ids.join(' ')}`).toBe(ids.length);
  for (const turn of turns) {
    const kinds = turn.map((entry) => (entry.t === 'message' && !entry.byRuntime ? entry.message.role : entry.t));
    const name = `turn of run ${turn[0]?.runId} in thread ${threadId}: ${kinds.join(' ')}`;
    expect(kinds[0], name).toBe('user');
    expect(kinds.filter((kind) => kind !== 'summary').at(-1), name).toBe('result');
    expect(
      kinds.filter((kind) => kind === 'result'),
      name,
    ).toHaveLength(1);
  }
}

/** Ids of calls are the model's, and come again: a result belongs to the step before it. */
function checkCallsAnswered({ threadId, items }: SeenThread): void {
  let open: string[] = [];
  for (const item of items) {
    if (item.kind === 'tool_use') open.push(item.toolCallId);
    else if (item.kind === 'tool_result') {
      expect(open, `thread ${threadId}: a result belongs to a call`).toContain(item.toolCallId);
      open = open.toSpliced(open.indexOf(item.toolCallId), 1);
    } else expect(open, `thread ${threadId}: calls of run ${item.runId} have results`).toEqual([]);
  }
  expect(open).toEqual([]);
}

/** The result of the run is the same as in its thread. */
function checkAnswers({ threadId, items, entries, runs }: SeenThread): void {
  for (const { runId, status, result, costMicrocents } of runs.values()) {
    const mine = items.filter((item) => item.runId === runId);
    const end = entries.find((entry) => entry.t === 'result' && entry.runId === runId);
    if (end?.t !== 'result') continue;
    const name = `run ${runId} of thread ${threadId}`;
    expect({ status: end.status, costMicrocents: end.costMicrocents }, name).toEqual({ status, costMicrocents });
    if (status !== 'completed') continue;
    const answer = mine.findLast((item) => item.kind === 'message' && item.role === 'assistant');
    expect(answer, name).toMatchObject({ text: result?.text });
  }
}

/** Runs that began and left no trace: each was rolled back by a message that came while it was there. */
function checkRollbacks({ threadId, items, runs }: SeenThread, sent: readonly Sent[]): ReadonlySet<string> {
  const shown = new Set(items.map(({ runId }) => runId));
  const gone = [...runs.values()].filter(({ runId, startedAt }) => startedAt && !shown.has(runId));
  const rollbacks = sent
    .filter(({ onBusy, runId }) => onBusy === 'rollback' && runId)
    .toSorted((a, b) => a.answeredAt - b.answeredAt);
  for (const run of gone.toSorted((a, b) => endOf(a) - endOf(b))) {
    const by = rollbacks.findIndex(
      ({ triedAt, answeredAt, runId }) =>
        runId !== run.runId && triedAt <= endOf(run) && answeredAt >= Date.parse(run.createdAt),
    );
    expect(by, `run ${run.runId} (${run.status}) of thread ${threadId} has left no trace`).not.toBe(-1);
    rollbacks.splice(by, 1);
  }
  return new Set(gone.map(({ runId }) => runId));
}

function endOf({ endedAt = '' }: RunView): number {
  return Date.parse(endedAt);
}

function checkSaid({ threadId, items, runs }: SeenThread, message: Sent, gone: ReadonlySet<string>): void {
  const { input, runId, executionId, onBusy } = message;
  const times = items.filter((item) => item.kind === 'message' && item.role === 'user' && item.text === input).length;
  const name = `${onBusy} message ${executionId} of thread ${threadId}, run ${runId}`;
  if (runId === undefined) return expect(times, `${name} was refused`).toBe(0);
  const own = runIdForExecution('default', executionId);
  const mayBeGone = (id: string) => gone.has(id) || (runs.get(id)?.status === 'cancelled' && !runs.get(id)?.startedAt);
  const carriers = runId === own ? [own] : [runId, followUpId(runId, own)].filter((id) => runs.has(id));
  if (carriers.some(mayBeGone)) return expect(times, name).toBeLessThanOrEqual(1);
  expect(times, `${name}: ${carriers.map((id) => `${id} ${runs.get(id)?.status}`).join(', ')}`).toBe(1);
}

/** Of two messages that only waited, the one that was taken before the other was sent comes first. */
function checkOrder({ threadId, items }: SeenThread, sent: readonly Sent[]): void {
  const position = new Map(items.map(({ runId }, index) => [runId, index]));
  const queued = sent.filter(({ onBusy, runId = '' }) => onBusy === 'queue' && position.has(runId));
  const at = ({ runId = '' }: Sent) => position.get(runId) as number;
  for (const a of queued) {
    const before = queued.filter((b) => a.answeredAt < b.triedAt && at(b) < at(a));
    expect(
      before.map(({ executionId }) => executionId),
      `in thread ${threadId} these went before ${a.executionId} (run ${a.runId}), which came earlier`,
    ).toEqual([]);
  }
}
