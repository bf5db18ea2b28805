import { canonicalJson } from '../../../shared/base/json.ts';
import { sha256 } from '../../../shared/base/ids.ts';
import type { Json } from '../../../shared/base/json-value.ts';
import {
  taskCap,
  type TaskActionOutcome,
  type TaskDecision,
  type TaskEval,
  type TaskState,
  type TaskStep,
} from '../../../shared/contract/orchestration/task.ts';
import type { TaskContext } from '../../agents/adapter.ts';
import {
  readTaskDecision,
  readEvals,
  readResult,
  readState,
  readVerdict,
  type ActionAnswer,
  type ReadVerdict,
  hasPassed,
  meanScore,
} from './answers.ts';
import { broken, exhausted, type TaskEnding } from './ending.ts';
import { shownDecision, shownOutcome, shownStep } from './history.ts';
import { refuseAborted, type RunningTask } from './task-run.ts';

type Act = Extract<TaskDecision, { type: 'act' }>;
type Ask = Extract<TaskDecision, { type: 'ask' }>;
/** What ends a stretch of work: the end of the task, or a question. */
export type Stretch = TaskEnding | { readonly asked: Ask };

/** Everything up to the end or the first question. Throws `cancelled`, and what the host throws. */
export async function beginTask(run: RunningTask): Promise<Stretch> {
  return (await look(run, 0)) ?? (await goOn(run));
}

/** The same for a task that asked: the answer completes the step. */
export async function answerTask(run: RunningTask, question: TaskState['question'], answer: string): Promise<Stretch> {
  const nowMs = run.host.now();
  const outcome = { ok: true, result: answer, durationMs: 0 } as const;
  return (await finishStep(run, question, outcome, nowMs)) ?? (await goOn(run));
}

async function goOn(run: RunningTask): Promise<Stretch> {
  for (;;) {
    refuseAborted(run);
    const end = (await stopOf(run)) ?? stuck(run) ?? spent(run, run.history.length);
    if (end) return end;
    const { stepNumber } = run;
    const reply = await run.call(
      `decide:${stepNumber}`,
      (context) => run.adapter.decide(viewOf(run, context)),
      readTaskDecision,
    );
    if (!reply.ok) return broken(reply.failure);
    const decision = reply.value as TaskDecision;
    await run.emit({ type: 'task.decide', decision: shownDecision(decision) });
    if (decision.type === 'stop') return stopped(decision, run.evals);
    if (decision.type === 'ask') {
      [run.lastAction, run.repeated] = [undefined, 0];
      return { asked: decision };
    }
    const halt = spent(run, 0) ?? repeats(run, decision) ?? (await act(run, decision));
    if (halt) return halt;
  }
}

/** Observes and checks. Undefined: the adapter has done both. */
async function look(run: RunningTask, stepNumber: number): Promise<TaskEnding | undefined> {
  const seen = await run.call(`observe:${stepNumber}`, (context) => run.adapter.observe(context), readState);
  if (!seen.ok) return broken(seen.failure);
  await run.emit({ type: 'task.observe' });
  run.state = seen.value;
  const validate = (context: TaskContext) => run.adapter.validate({ ...context, state: run.state });
  const checked = await run.call(`validate:${stepNumber}`, validate, readEvals);
  if (!checked.ok) return broken(checked.failure);
  run.evals = checked.value as readonly TaskEval[];
  await run.emit({ type: 'task.validate', evals: [...run.evals] });
  return undefined;
}

async function act(run: RunningTask, decision: Act): Promise<TaskEnding | undefined> {
  const { adapter, stepNumber, state } = run;
  const { action } = decision;
  const startedMs = run.host.now();
  const work = (context: TaskContext) => adapter.act({ ...viewOf(run, context), action });
  const reply = await run.call(`act:${stepNumber}`, work, (answer) => readResult(answer, adapter, { action, state }));
  const durationMs = Math.max(0, run.host.now() - startedMs);
  const outcome = reply.ok
    ? ({ ok: true, ...(reply.value as ActionAnswer), durationMs } as const)
    : ({ ok: false, error: { code: reply.failure.code, message: reply.failure.message }, durationMs } as const);
  await run.emit({ type: 'task.act', outcome: shownOutcome(outcome) });
  const ended = await finishStep(run, decision, outcome, startedMs);
  if (reply.ok) return ended;
  const goesOn = run.settings.onActionFailure === 'continue' && reply.failure.kind === 'threw';
  return goesOn ? ended : broken(reply.failure);
}

/** Looks again and writes the step down, also when nothing can be seen any more: what was done was done. */
async function finishStep(run: RunningTask, decision: Act | Ask, outcome: TaskActionOutcome, startedMs: number) {
  const { stepNumber, state: beforeState, evals: beforeEvals } = run;
  const ended = await look(run, stepNumber);
  const step: TaskStep = {
    stepNumber,
    decision,
    beforeState,
    afterState: run.state,
    beforeEvals: [...beforeEvals],
    afterEvals: [...run.evals],
    outcome,
    startedAt: new Date(startedMs).toISOString(),
    endedAt: new Date(run.host.now()).toISOString(),
  };
  run.noProgress = hasProgressed(run, step) ? 0 : run.noProgress + 1;
  run.addStep(step);
  await run.emit({ type: 'task.step', record: shownStep(step) });
  return ended;
}

function hasProgressed({ settings }: RunningTask, { beforeState, afterState, beforeEvals, afterEvals }: TaskStep) {
  const moved = Math.abs((meanScore(afterEvals) ?? 0) - (meanScore(beforeEvals) ?? 0));
  return moved >= settings.stopPolicies.minScoreDelta || canonicalJson(afterState) !== canonicalJson(beforeState);
}

async function stopOf(run: RunningTask): Promise<TaskEnding | undefined> {
  const { adapter, stepNumber } = run;
  if (!adapter.shouldStop) return undefined;
  const work = (context: TaskContext) => adapter.shouldStop?.(viewOf(run, context));
  const reply = await run.call(`should-stop:${stepNumber}`, work, readVerdict);
  if (!reply.ok) return broken(reply.failure);
  const { stop, pass, reason, score } = reply.value as ReadVerdict;
  return stop ? { stoppedBy: 'stop-policy', completed: true, pass, reason, score } : undefined;
}

function stuck({ noProgress, settings }: RunningTask): TaskEnding | undefined {
  const { maxNoProgressSteps } = settings.stopPolicies;
  if (maxNoProgressSteps === undefined || noProgress < maxNoProgressSteps) return undefined;
  return gotNowhere(`${noProgress} steps in a row changed neither the state nor the score`);
}

function repeats(run: RunningTask, { action }: Act): TaskEnding | undefined {
  const digest = sha256(canonicalJson(action));
  run.repeated = digest === run.lastAction ? run.repeated + 1 : 1;
  run.lastAction = digest;
  const { maxRepeatedActions } = run.settings.stopPolicies;
  if (maxRepeatedActions === undefined || run.repeated < maxRepeatedActions) return undefined;
  return gotNowhere(`the same action was decided ${run.repeated} times in a row`);
}

function spent(run: RunningTask, steps: number): TaskEnding | undefined {
  const { maxSteps, maxWallMs } = run.settings.budget;
  const cap = taskCap(run.settings);
  if (steps >= maxSteps) return exhausted(`${maxSteps} steps are used up`);
  if (cap !== undefined && run.spentMicrocents >= cap) return exhausted(`the cost has reached ${cap} microcents`);
  if (run.elapsedMs() >= maxWallMs) return exhausted(`${maxWallMs} ms are used up`);
  return undefined;
}

function stopped(
  { reason, pass, score }: Extract<TaskDecision, { type: 'stop' }>,
  evals: readonly TaskEval[],
): TaskEnding {
  return { stoppedBy: 'policy', completed: true, pass: pass ?? hasPassed(evals), reason, score };
}

function gotNowhere(reason: string): TaskEnding {
  return { stoppedBy: 'stop-policy', completed: true, pass: false, reason };
}

function viewOf({ state, evals }: RunningTask, context: TaskContext) {
  return { ...context, state: state as Json, evals };
}
