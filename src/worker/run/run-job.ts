import { asRunError, RunError } from '../../shared/base/errors.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import {
  isOrchestrated,
  workOf,
  type RunJob,
  type RunRecord,
  isTerminalStatus,
  runRequest,
} from '../../shared/contract/run.ts';
import { runTurn, type TurnOutcome } from '../turn/turn.ts';
import { handOff } from './hand-off.ts';
import type { RunDeps, OpenRun } from './run-context.ts';
import { openRun, type Delivery } from './open-run.ts';
import { withNodeRetries } from './node-retry.ts';
import { refused, type JobOutcome } from './outcome.ts';
import { orchestrate } from './orchestration-of.ts';
import { systemFor } from './prompt-for.ts';
import { settle } from './settle.ts';
import { mayKeepResults, openToolbox } from './toolbox.ts';
import { turnFor, type Prepared } from './turn-for.ts';
import { canonicalJson } from '../../shared/base/json.ts';
import type { NewRun } from '../../shared/state/run/create-runs.ts';
import { newNonce, sha256 } from '../../shared/base/ids.ts';
import { followUpId } from '../../shared/state/run/control/inbox.ts';
import type { Ports } from './ports.ts';

/**
 * Runs one segment of a run: open, turns, settle. Expected ends are values; it throws `lock_lost` when another worker owns
 * the run and `queue_unavailable` when the store does not take writes, and then nothing was acknowledged.
 */
export async function runJob(job: RunJob, delivery: Delivery, deps: RunDeps, signal: AbortSignal): Promise<JobOutcome> {
  const opened = await openRun(job, delivery, deps, signal);
  if (opened.kind !== 'open') {
    // The worker that ended it may have been lost before it continued what waits for the end.
    if (opened.kind === 'skipped' && opened.reason === 'terminal')
      await afterEnd(await deps.ports.runs.load(job.runId), deps);
    return opened;
  }
  await using run = opened.run;
  const work = workOf(run.record.request);
  const [last, ending] = isOrchestrated(work)
    ? ([run, await orchestrate(run, work, deps)] as const)
    : await sequence(run, deps);
  const outcome = await finish(last, ending, deps);
  if (outcome.kind === 'ended' && outcome.status !== 'cancelled') forgetResults(last, ending.state, deps);
  return outcome;
}

const reasons = {
  poison: 'the run brought down every worker process that tried it; see its last events, then `millrace redrive`',
  job_lost: 'the job of this run kept vanishing from the queue',
} as const;

/**
 * Ends a run that no worker can finish, with `worker_lost` and the reason: takes it from the worker that had it and settles it,
 * without a job and without a turn. Does nothing when the run has ended already.
 *
 * A claim and a settlement, and not one script as for a run that has not begun (`endUnstarted`): the cost of the run, its open
 * children, what goes into its thread and which steering messages it has read are in its journal, and the fold of the journal
 * is TypeScript. The event of the claim takes the next number, which fences the flushes of a worker that is still alive.
 */
export async function abandonRun(
  run: Pick<RunRecord, 'runId' | 'segment'>,
  reason: keyof typeof reasons,
  worker: string,
  deps: RunDeps,
): Promise<void> {
  const taker = { queue: 'maintenance', worker, activity: 'watched' } as const;
  const opened = await openRun(run, taker, deps, new AbortController().signal);
  if (opened.kind !== 'open') return;
  await using open = opened.run;
  const error = new RunError('worker_lost', reasons[reason], { details: { reason }, retryable: false });
  await finish(open, refused(open, error), deps);
}

/** Settles the segment. When the run has ended, it continues what waited for that. */
async function finish(run: OpenRun, ending: TurnOutcome, deps: RunDeps): Promise<JobOutcome> {
  const outcome = await settle(run, ending, deps);
  await run.relay?.drained();
  if (outcome.kind === 'ended')
    await afterEnd({ ...run.record, status: outcome.status, inboxRead: [...ending.state.steered.keys()] }, deps);
  return outcome;
}

/** One turn after the other, as one agent hands off to the next. Returns the run as the last one left it. */
async function sequence(opened: OpenRun, deps: RunDeps): Promise<[OpenRun, TurnOutcome]> {
  let run = opened;
  for (;;) {
    const outcome = await runWithTools(run, deps);
    if (outcome.status !== 'handed_off') return [run, outcome];
    try {
      run = await handOff(run, outcome, deps);
    } catch (thrown) {
      return [run, refused(outcome, asRunError(thrown))];
    }
  }
}

/** One turn, with its prompt built and its tools open. */
async function runWithTools(run: OpenRun, deps: RunDeps): Promise<TurnOutcome> {
  const { record, state, writer, thread } = run;
  const { agent, refusal } = run.assignment;
  const { signal } = run.signals;
  if (!agent || refusal || signal.aborted) return await takeTurns(run, deps, undefined);
  try {
    const system = await systemFor(run, agent, deps);
    run.equipment.promptChars = system.length;
    const emit = (event: EventBody) => writer.emit(event);
    const about = { record, state, emit, manifest: thread?.manifest };
    await using toolbox = await openToolbox(agent, about, { ...deps.tools, log: run.log }, signal);
    return await takeTurns(run, deps, { system, toolbox });
  } catch (thrown) {
    return signal.aborted ? await takeTurns(run, deps, undefined) : refused(run, asRunError(thrown));
  }
}

/** One turn; that of a node with the retries that the node asks for. */
async function takeTurns(run: OpenRun, deps: RunDeps, prepared: Prepared | undefined): Promise<TurnOutcome> {
  const take = async (now: OpenRun) => {
    const turn = turnFor(now, deps, prepared);
    if (turn instanceof RunError) return refused(now, turn);
    return await runTurn(turn.spec, now.state, turn.deps, now.signals.signal);
  };
  const work = workOf(run.record.request);
  return work.kind === 'node' ? await withNodeRetries(run, work.node, deps, take) : await take(run);
}

/** Drops the large results of an ended run. Those of a cancelled run are kept: they may show why. */
function forgetResults(
  { record: { runId, request } }: OpenRun,
  { handoffs }: TurnOutcome['state'],
  { agents, tools: { artifacts, log } }: RunDeps,
): void {
  // Each agent of the run, in this segment or an earlier one, may have kept some.
  const had = [request.agent, ...handoffs.map(({ toAgentId }) => toAgentId)].map((id) => agents.get(id));
  if (!had.some((agent) => agent && mayKeepResults(agent))) return;
  artifacts?.drop(runId).catch((err: unknown) => log.debug({ err, runId }, 'kept results of a run were not dropped'));
}

/**
 * Continues what waited for the end of a run: its parent, and the next run of its thread. Takes the record as it is after the
 * end; does nothing for a run that was redriven since. Idempotent.
 */
async function afterEnd(record: RunRecord | undefined, { ports, queuePostRunJobs }: RunDeps): Promise<void> {
  if (!record || !isTerminalStatus(record.status)) return;
  const { runId, tenant, parent, request, status } = record;
  if (parent) await ports.children.ended(runId);
  if (request.thread === undefined) return;
  await queueFollowUps(record, ports);
  if (status === 'completed' || status === 'degraded') await queuePostRunJobs?.(record);
  await ports.threads.releaseToNext(tenant, request.thread, record);
}

/**
 * Inbox messages that a run of a thread ended too early to read become the next messages of the thread. Idempotent: each
 * follow-up run has an id of its own.
 */
async function queueFollowUps(record: RunRecord, ports: Pick<Ports, 'inbox' | 'children' | 'threads'>): Promise<void> {
  const { runId, tenant, request, queue, inboxRead = [] } = record;
  const messages = await ports.inbox.read(runId);
  if (messages.length === 0) return;
  const { agent, thread = '', sessionId, budget, limits, metadata } = request;
  const followUps = messages
    .filter(({ id }) => !inboxRead.includes(id))
    .map(({ id, text }): NewRun => {
      const asked = runRequest.parse({ agent, input: text, thread, sessionId, budget, limits, metadata });
      const next = followUpId(runId, id);
      const bodyHash = sha256(canonicalJson({ agent, text }));
      return { runId: next, tenant, kind: 'agent.turn', queue, request: asked, bodyHash, nonce: newNonce() };
    });
  for (const next of followUps)
    await ports.threads.enter({ tenant, threadId: thread, runId: next.runId, agentId: agent });
  await ports.children.start(followUps);
  await ports.inbox.drop(
    runId,
    messages.map(({ id }) => id),
  );
}
