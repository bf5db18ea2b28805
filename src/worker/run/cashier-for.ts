import { budgetCap } from '../../shared/contract/money.ts';
import { effectiveBudget } from './limits.ts';
import type { OpenRun, RunDeps } from './open.ts';
import type { StepGateOptions } from '../admission/step-gate.ts';

/** Who pays for a run, and by which rules. */
export function cashierFor(run: OpenRun, deps: RunDeps): StepGateOptions {
  const { record, agent, writer, clock, log, owner, purse } = run;
  const { ports, patienceMs, meter, modelName, wake, tenants } = deps;
  const budget = effectiveBudget(agent?.definition, record.request);
  const isDenied = budget?.unpriced === 'deny' && budgetCap(budget) !== undefined;
  return {
    ports,
    clock,
    log,
    purse,
    owner,
    patienceMs,
    denyUnpriced: isDenied || tenants.of(record.tenant).budget?.unpriced === 'deny',
    modelName,
    ...(meter && { meter }),
    emit: (body) => writer.emit(body),
    wake: (runIds) => {
      for (const id of runIds) wake(id, 'there is money for it now');
    },
  };
}
