import { RunError } from '../../shared/errors.ts';
import type { Json } from '../../shared/json-value.ts';
import { budgetCap, zeroUsage, type RunUsage } from '../../shared/money.ts';
import { cutText } from '../../shared/redact.ts';
import type { RunRequest } from '../../shared/run.ts';
import type { TaskRequest } from '../../shared/task-request.ts';
import type { TaskOutcome, TaskResult, TaskSettings, TaskSettingsInput, TaskSpec } from '../../shared/task.ts';
import { addRunUsage, emptyRunUsage } from '../llm/cost.ts';
import type { Program, ProgramHost, ProgramResult } from './program.ts';
import type { TaskAdapter } from './task/adapter.ts';
import type { ActionAnswer } from './task/answers.ts';
import type { CallReply, Charge } from './task/call.ts';
import { TaskHistory } from './task/history.ts';
import type { TaskHost } from './task/host.ts';
import { resumeAgentTask, runAgentTask } from './task/run-task.ts';

/** More of an answer is cut. */
const maxAnswerBytes = 64 * 1024;
/** Of all steps in the result, as JSON. */
const maxShownBytes = 512 * 1024;

/**
 * A task whose calls are steps of a run. It asks the people that the run asks, and goes on with what they say. Fails with
 * `validation` where this worker has no such adapter.
 */
export function taskProgram(
  task: TaskRequest,
  { runId, budget }: { readonly runId: string; readonly budget: RunRequest['budget'] },
  adapters: ReadonlyMap<string, TaskAdapter>,
): Program {
  return async (host) => {
    const adapter = adapters.get(task.adapter);
    if (!adapter) throw new RunError('validation', `this worker has no task adapter ${task.adapter}`);
    const place = { host: hostOf(host) };
    let outcome = await runAgentTask(adapter, { ...settingsOf(task, runId, budgetCap(budget)), ...place });
    while (outcome.status === 'suspended') {
      const said = await host.ask(`question:${outcome.state.steps.length + 1}`, outcome.question);
      const answer = said.trim() === '' ? 'There is no answer: it was left blank.' : cutText(said, maxAnswerBytes);
      outcome = await resumeAgentTask(outcome.state, answer, adapter, place);
    }
    return resultOf(outcome);
  };
}

function settingsOf(task: TaskRequest, id: string, runCap: number | undefined): TaskSettingsInput {
  const { intent, input, requirements, knowledge, limits, stopPolicies, onActionFailure } = task;
  const { maxSteps, maxWallMs } = limits;
  const caps = [budgetCap(limits), runCap].filter((cap) => cap !== undefined);
  return {
    task: { id, intent, input: input as TaskSpec['input'], requirements },
    knowledge: knowledge as TaskSettings['knowledge'],
    budget: { maxSteps, maxWallMs, ...(caps.length > 0 && { maxCostMicrocents: Math.min(...caps) }) },
    stopPolicies,
    onActionFailure,
  };
}

function hostOf(host: ProgramHost): TaskHost {
  return {
    step: async (name, fn) =>
      (await host.step(`task:${name}`, fn, (reply) => spentOn(reply as CallReply, name.startsWith('act:')))) as Json,
    now: () => host.now(),
    emit: (event) => host.emit(event),
    signal: host.signal,
  };
}

/** What the adapter charged, and what it says that its action cost. */
function spentOn(
  { charges, ...reply }: CallReply,
  isAction: boolean,
): { readonly costMicrocents: number; readonly usage: RunUsage } {
  const own = isAction && reply.ok ? ((reply.value as ActionAnswer).costMicrocents ?? 0) : 0;
  return {
    costMicrocents: charges.reduce((sum, { costMicrocents }) => sum + costMicrocents, own),
    usage: charges.map(usageOf).reduce(addRunUsage, emptyRunUsage),
  };
}

function usageOf({ model, costMicrocents, ...tokens }: Charge): RunUsage {
  const {
    inputTokens: input,
    outputTokens: output,
    cachedTokens: cached = 0,
    cacheWriteTokens: cacheWrite = 0,
  } = tokens;
  const usage = { ...zeroUsage, input, output, cached, cacheWrite, total: input + output + cached + cacheWrite };
  return { ...usage, byModel: { [model]: { ...usage, attemptCount: 1, costMicrocents } } };
}

/** A task that its adapter broke has failed. Any other end is a result, and says whether it passed. */
function resultOf(outcome: Exclude<TaskOutcome, { status: 'suspended' }>): ProgramResult {
  const error = outcome.status === 'failed' ? outcome.error : undefined;
  if (error) throw new RunError(error.code, error.message, { details: { steps: outcome.steps.length } });
  const shown = new TaskHistory([], maxShownBytes);
  for (const step of outcome.steps) shown.add(step);
  const output: TaskResult = { ...outcome, steps: [...shown.steps] };
  return { text: outcome.reason, output, ...(outcome.status === 'blocked' && { blocked: true }) };
}
