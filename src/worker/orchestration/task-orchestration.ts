import { RunError } from '../../shared/base/errors.ts';
import type { Json } from '../../shared/base/json-value.ts';
import { cutText } from '../../shared/base/redact.ts';
import type { TaskRequest } from '../../shared/contract/orchestration/requests.ts';
import type {
  TaskOutcome,
  TaskResult,
  TaskSettings,
  TaskSettingsInput,
  TaskSpec,
} from '../../shared/contract/orchestration/task.ts';
import type { Orchestration, OrchestrationHost, OrchestrationResult } from './orchestration.ts';
import type { TaskAdapter } from '../agents/adapter.ts';
import { TaskHistory } from './task/history.ts';
import type { TaskHost, TaskCharge } from './task/host.ts';
import { resumeAgentTask, runAgentTask } from './task/run-task.ts';
import type { PaidAttempt } from '../../shared/state/money/costs.ts';
import { usdToMicrocents, zeroUsage, addRunUsage, emptyRunUsage } from '../../shared/contract/money.ts';
import { usageOfCost } from '../turn/listen.ts';
import type { StepSpent, StepCosts } from '../admission/step-gate.ts';
import type { ActionAnswer } from './task/answers.ts';
import type { CallReply } from './task/call.ts';

/** More of an answer is cut. */
const maxAnswerBytes = 64 * 1024;
/** Of all steps in the result, as JSON. */
const maxShownBytes = 512 * 1024;

/**
 * A task whose calls are steps of a run. It asks the people that the run asks, and continues with their answer. Fails with
 * `validation` where this worker has no such adapter.
 */
export function taskOrchestration(
  task: TaskRequest,
  runId: string,
  adapters: ReadonlyMap<string, TaskAdapter>,
): Orchestration {
  return async (host) => {
    const adapter = adapters.get(task.adapter);
    if (!adapter) throw new RunError('validation', `this worker has no task adapter ${task.adapter}`);
    const place = { host: hostOf(host, adapter) };
    let outcome = await runAgentTask(adapter, { ...settingsOf(task, runId), ...place });
    while (outcome.status === 'suspended') {
      const reply = await host.ask(`question:${outcome.state.steps.length + 1}`, outcome.question);
      const answer = reply.trim() === '' ? 'There is no answer: it was left blank.' : cutText(reply, maxAnswerBytes);
      outcome = await resumeAgentTask(outcome.state, answer, adapter, place);
    }
    return resultOf(outcome);
  };
}

function settingsOf(task: TaskRequest, id: string): TaskSettingsInput {
  const { intent, input, requirements, knowledge, limits, stopPolicies, onActionFailure } = task;
  return {
    task: { id, intent, input: input as TaskSpec['input'], requirements },
    knowledge: knowledge as TaskSettings['knowledge'],
    budget: limits,
    stopPolicies,
    onActionFailure,
  };
}

function hostOf(host: OrchestrationHost, adapter: TaskAdapter): TaskHost {
  return {
    step: async (name, fn) => {
      const { onCharge, costs } = callCosts(adapter, name);
      return (await host.step(`task:${name}`, () => fn(onCharge), costs)) as Json;
    },
    now: () => host.now(),
    workedMs: () => host.workedMs(),
    lostMicrocents: () => host.lostMicrocents(),
    emit: (event) => host.emit(event),
    signal: host.signal,
  };
}

/** A task that its adapter broke has failed. Any other end is a result, with whether it passed. */
function resultOf(outcome: Exclude<TaskOutcome, { status: 'suspended' }>): OrchestrationResult {
  const error = outcome.status === 'failed' ? outcome.error : undefined;
  if (error) throw new RunError(error.code, error.message, { details: { steps: outcome.steps.length } });
  const shown = new TaskHistory([], maxShownBytes);
  for (const step of outcome.steps) shown.add(step);
  const output: TaskResult = { ...outcome, steps: [...shown.steps] };
  return { text: outcome.reason, output, ...(outcome.status === 'blocked' && { blocked: true }) };
}

/** The functions of an adapter by the names of their calls, which have a number behind them. */
const functions = {
  observe: 'observe',
  validate: 'validate',
  decide: 'decide',
  act: 'act',
  'should-stop': 'shouldStop',
  knowledge: 'onKnowledgeBlocked',
} as const satisfies Record<string, keyof TaskAdapter>;

/** What a call of an adapter's function costs: what it charged, and the cost that the adapter reports for its action. */
function callCosts(adapter: TaskAdapter, call: string) {
  const charged: TaskCharge[] = [];
  const name = functions[call.split(':', 1)[0] as keyof typeof functions];
  return {
    onCharge: (charge: TaskCharge) => void charged.push(charge),
    costs: {
      payee: { provider: 'task', model: `${adapter.id}:${name}` },
      mostMicrocents: usdToMicrocents(adapter.mostUsd?.[name] ?? 0),
      spent: (answer) =>
        answer === undefined ? spentOn(charged, [], true) : spentByReply(answer as CallReply, name, adapter.id),
    } satisfies StepCosts,
  };
}

function spentByReply({ charges, ...reply }: CallReply, name: string, adapterId: string): StepSpent {
  const costMicrocents = name === 'act' && reply.ok ? ((reply.value as ActionAnswer).costMicrocents ?? 0) : 0;
  const action = { provider: 'task', model: adapterId, usage: zeroUsage, costMicrocents, priced: true };
  return spentOn(charges, costMicrocents > 0 ? [action] : [], !reply.ok && reply.failure.kind === 'late');
}

function spentOn(charges: readonly TaskCharge[], others: readonly PaidAttempt[], isCutOff: boolean): StepSpent {
  const calls = charges.map(paidAttempt);
  const parts = [...calls, ...others];
  return {
    costMicrocents: parts.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0),
    usage: calls.map(usageOf).reduce(addRunUsage, emptyRunUsage),
    parts,
    isCutOff,
  };
}

function paidAttempt({ model, costMicrocents, priced, ...tokens }: TaskCharge): PaidAttempt {
  return { provider: 'task', model, usage: usageOfCost(tokens), costMicrocents, priced };
}

function usageOf({ model, usage, costMicrocents }: PaidAttempt) {
  return { ...usage, byModel: { [model]: { ...usage, attemptCount: 1, costMicrocents } } };
}
