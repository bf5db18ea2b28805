import type { PaidAttempt } from '../../shared/state/money/costs.ts';
import { usdToMicrocents, zeroUsage, addRunUsage, emptyRunUsage } from '../../shared/contract/money.ts';
import { usageOfCost } from '../turn/cost-event.ts';
import type { StepSpent, StepCosts } from '../admission/step-gate.ts';
import type { TaskAdapter } from '../agents/adapter.ts';
import type { ActionAnswer } from './task/answers.ts';
import type { CallReply } from './task/call.ts';
import type { TaskCharge } from './task/charges.ts';

/** The functions of an adapter by the names of their calls, which have a number behind them. */
const functions = {
  observe: 'observe',
  validate: 'validate',
  decide: 'decide',
  act: 'act',
  'should-stop': 'shouldStop',
  knowledge: 'onKnowledgeBlocked',
} as const satisfies Record<string, keyof TaskAdapter>;

/** What a call of an adapter's function costs: what it charged, and what the adapter says that its action cost. */
export function callCosts(
  adapter: TaskAdapter,
  call: string,
): { readonly onCharge: (charge: TaskCharge) => void; readonly costs: StepCosts } {
  const charged: TaskCharge[] = [];
  const name = functions[call.split(':', 1)[0] as keyof typeof functions];
  return {
    onCharge: (charge) => void charged.push(charge),
    costs: {
      payee: { provider: 'task', model: `${adapter.id}:${name}` },
      mostMicrocents: usdToMicrocents(adapter.mostUsd?.[name] ?? 0),
      spent: (answer) =>
        answer === undefined ? spentOn(charged, [], true) : spentByReply(answer as CallReply, name, adapter.id),
    },
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
