import type { Log } from '../../shared/base/log.ts';
import { budgetCap } from '../../shared/contract/money.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { Accounts } from '../../shared/state/money/accounts.ts';
import type { StepGateOptions } from '../admission/step-gate.ts';
import { countedAgent } from '../agents/known-names.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';
import type { RunDeps, OpenRun } from './run-context.ts';
import { effectiveBudget } from './limits.ts';

/** The accounts that pay for the run. */
export function accountsOfRun(
  { runId, tenant, request, parent, costMicrocents }: RunRecord,
  agent: LoadedAgent | undefined,
  known: Pick<RunDeps, 'agents' | 'functions'>,
): Accounts {
  const budget = effectiveBudget(agent?.definition, request);
  const capMicrocents = budgetCap(budget);
  return {
    runId,
    tenant,
    agentId: countedAgent(request, known),
    batch: request.batch ?? parent?.batch,
    payers: parent?.payers,
    run:
      budget && capMicrocents !== undefined
        ? { capMicrocents, onExceed: budget.onExceed, spentMicrocents: costMicrocents }
        : undefined,
  };
}

/** Writes off what a lost worker had reserved: the provider may have billed it. */
export async function writeOff(accounts: Accounts, { ports, wake }: Pick<RunDeps, 'ports' | 'wake'>): Promise<void> {
  if (!ports.ledger.isCapped(accounts)) return;
  for (const runId of await ports.ledger.writeOff(accounts)) wake(runId, moneyCame);
}

type PaymentDeps = Pick<RunDeps, 'ports' | 'maxInlineWaitMs' | 'metrics' | 'wake' | 'tenants'>;

/** The accounts and the rules by which a run pays. */
export function paymentOf(
  { record, assignment: { agent }, writer, log, owner, accounts }: OpenRun,
  deps: PaymentDeps,
): StepGateOptions {
  const budget = effectiveBudget(agent?.definition, record.request);
  const payment = paymentBy(accounts, owner, log, deps);
  const isDenied = budget?.unpriced === 'deny' && budgetCap(budget) !== undefined;
  return { ...payment, denyUnpriced: isDenied || payment.denyUnpriced, emit: (body) => writer.emit(body) };
}

/** The rules by which accounts pay for calls that belong to no step of a run. */
export function paymentBy(
  accounts: Accounts,
  owner: string,
  log: Log,
  { ports, maxInlineWaitMs, metrics, wake, tenants }: PaymentDeps,
): StepGateOptions {
  return {
    ports,
    clock: ports.clock,
    log,
    accounts,
    owner,
    maxInlineWaitMs,
    denyUnpriced: tenants.of(accounts.tenant).budget?.unpriced === 'deny',
    modelName: metrics?.modelName,
    meter: metrics?.money,
    emit: () => {},
    wake: (runIds) => {
      for (const id of runIds) wake(id, moneyCame);
    },
  };
}

const moneyCame = 'there is money for it now';
