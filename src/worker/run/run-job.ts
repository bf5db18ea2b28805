import { asRunError } from '../../shared/base/errors.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { isOrchestrated, workOf, type RunJob } from '../../shared/contract/run.ts';
import { runTurn, type TurnOutcome } from '../turn/turn.ts';
import { afterEnd } from './after-end.ts';
import { handOff } from './hand-off.ts';
import type { RunDeps, OpenRun } from './open-run.ts';
import { openRun, type Delivery } from './open.ts';
import { withNodeRetries } from './node-retry.ts';
import { refused, type JobOutcome } from './outcome.ts';
import { orchestrate } from './orchestration-of.ts';
import { systemFor } from './prompt-for.ts';
import { settle } from './settle.ts';
import { mayKeepResults, openToolbox } from './toolbox.ts';
import { turnFor, type Prepared } from './turn-for.ts';

/**
 * Runs one segment of a run: open, one turn, settle. Expected ends are values; it throws `lock_lost` when somebody else
 * took the run over and `queue_unavailable` when the store does not take writes, and then nothing was acknowledged.
 */
export async function runJob(job: RunJob, delivery: Delivery, deps: RunDeps, signal: AbortSignal): Promise<JobOutcome> {
  const opened = await openRun(job, delivery, deps, signal);
  if (opened.kind !== 'open') {
    // Whoever ended it may have died before it could tell.
    if (opened.kind === 'skipped' && opened.reason === 'terminal')
      await afterEnd(await deps.ports.runs.load(job.runId), deps);
    return opened;
  }
  await using run = opened.run;
  const work = workOf(run.record.request);
  const [last, ending] = isOrchestrated(work)
    ? ([run, await orchestrate(run, work, deps)] as const)
    : await sequence(run, deps);
  const outcome = await settle(last, ending, deps);
  await run.relay?.drained();
  if (outcome.kind === 'ended')
    await afterEnd({ ...run.record, status: outcome.status, inboxRead: [...ending.state.steered.keys()] }, deps);
  if (outcome.kind === 'ended' && outcome.status !== 'cancelled') forgetResults(last, ending.state, deps);
  return outcome;
}

/** One turn after the other, as one agent hands over to the next. Answers the run as the last of them left it. */
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

/** The turn, with its prompt made and its tools open for as long as it goes on. */
async function runWithTools(run: OpenRun, deps: RunDeps): Promise<TurnOutcome> {
  const { record, state, writer, thread } = run;
  const { agent, refusal } = run.assignment;
  const { signal } = run.signals;
  if (!agent || refusal || signal.aborted) return await takeTurns(run, deps, undefined);
  try {
    const system = await systemFor(run, agent, deps);
    const emit = (event: EventBody) => writer.emit(event);
    const about = { record, state, emit, manifest: thread?.manifest };
    await using toolbox = await openToolbox(agent, about, { ...deps.tools, log: run.log }, signal);
    return await takeTurns(run, deps, { system, toolbox });
  } catch (thrown) {
    return signal.aborted ? await takeTurns(run, deps, undefined) : refused(run, asRunError(thrown));
  }
}

/** The turn of a run; that of a node is taken again as often as the node asks for. */
async function takeTurns(run: OpenRun, deps: RunDeps, prepared: Prepared | undefined): Promise<TurnOutcome> {
  const take = async (now: OpenRun) => {
    const turn = turnFor(now, deps, prepared);
    if (turn.kind === 'refused') return refused(now, turn.error);
    return await runTurn(turn.spec, now.state, turn.deps, now.signals.signal);
  };
  const work = workOf(run.record.request);
  return work.kind === 'node' ? await withNodeRetries(run, work.node, deps, take) : await take(run);
}

/** Nobody reads the large results of a run that has come to its end. Those of one that was cancelled may show why. */
function forgetResults(
  { record: { runId, request } }: OpenRun,
  { handoffs }: TurnOutcome['state'],
  { agents, tools: { artifacts, log } }: RunDeps,
): void {
  // Each agent that had the run, in this segment or an earlier one, may have kept some.
  const had = [request.agent, ...handoffs.map(({ toAgentId }) => toAgentId)].map((id) => agents.get(id));
  if (!had.some((agent) => agent && mayKeepResults(agent))) return;
  artifacts?.drop(runId).catch((err: unknown) => log.debug({ err, runId }, 'kept results of a run were not dropped'));
}
