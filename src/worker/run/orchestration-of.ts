import { canonicalJson } from '../../shared/base/json.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import type { FanOutRequest } from '../../shared/contract/orchestration/requests.ts';
import type { OrchestratedWork, RunRecord } from '../../shared/contract/run.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import { unknownAgent } from '../agents/known-names.ts';
import type { RunDeps, OpenRun } from './run-context.ts';
import { paymentOf } from './payment.ts';
import { childRulesOf } from '../orchestration/child-permits.ts';
import { evaluateOrchestration } from '../orchestration/evaluate-orchestration.ts';
import { fanOutOrchestration } from '../orchestration/fan-out-run.ts';
import { guardOf } from '../orchestration/merge-guard.ts';
import { crossingWatchOf } from './leak-watch.ts';
import { boundsOf, effectiveLimits, effectiveTaskLimits } from './limits.ts';
import type { NamedFunctions } from '../agents/load-agents.ts';
import { refused } from './outcome.ts';
import { runOrchestration } from '../orchestration/orchestration-run.ts';
import type { Orchestration } from '../orchestration/orchestration.ts';
import { stepGate } from '../admission/step-gate.ts';
import { taskOrchestration } from '../orchestration/task-orchestration.ts';

const noFunctions: NamedFunctions = { judges: new Map(), merges: new Map(), adapters: new Map() };

/** Runs the orchestration that the request asks for, in place of a turn. Never rejects. */
export async function orchestrate(run: OpenRun, work: OrchestratedWork, deps: RunDeps): Promise<TurnOutcome> {
  const { record, signals } = run;
  const { agent, refusal } = run.assignment;
  const { request } = record;
  if (refusal) return refused(run, refusal);
  if (!agent && work.kind !== 'task') return refused(run, unknownAgent(request.agent));
  // A task has limits of its own, and its waits for answers do not count there.
  const limited =
    agent && work.kind !== 'task' ? effectiveLimits(agent.definition, request, deps.limitCaps) : request.limits;
  if (limited?.wallTimeMs !== undefined) signals.limitWallTime(limited.wallTimeMs, run.workedMs());
  const boundOf: BoundOf = agent ? boundsOf(agent.definition, request) : (_, asked) => asked;
  const tooMany = work.kind === 'fanOut' && !hasBegun(run) ? tooManyChildren(record, work.fanOut, boundOf) : undefined;
  if (tooMany) return refused(run, tooMany);
  return await runOrchestration(orchestrationOf(run, work, boundOf, deps), run, deps.ports, {
    gate: stepGate(paymentOf(run, deps)),
    rules: agent && childRulesOf(agent, record, deps.tools.policyOf),
    crossings: crossingWatchOf(record, agent?.definition, (id) => deps.agents.get(id)?.definition.tools ?? []),
    stopRequested() {
      if (signals.cancelRequest?.drain) return 'drain';
      return deps.stopping() ? 'hand_over' : undefined;
    },
  });
}

type BoundOf = ReturnType<typeof boundsOf>;

function hasBegun({ state }: OpenRun): boolean {
  return state.orchestration.facts.length > 0 || state.orchestration.children.size > 0;
}

/** Refused, and not cut: fewer children would give another answer than the one that was asked for. */
function tooManyChildren({ request }: RunRecord, { children }: FanOutRequest, boundOf: BoundOf): RunError | undefined {
  const { length } = children;
  const most = boundOf('maxFanOutChildren', length);
  if (length <= most) return undefined;
  const message = `agent ${request.agent} lets a fan-out ask ${most} agents (limits.maxFanOutChildren), and the request names ${length}`;
  return new RunError('validation', message, { details: [{ path: 'fanOut.children', message: `at most ${most}` }] });
}

function orchestrationOf(
  run: OpenRun,
  work: OrchestratedWork,
  boundOf: BoundOf,
  { functions = noFunctions, agents }: Pick<RunDeps, 'functions' | 'agents'>,
): Orchestration {
  const { runId, request } = run.record;
  const { input, raise } = request;
  switch (work.kind) {
    case 'fanOut': {
      const { fanOut } = work;
      const maxConcurrentChildren = boundOf('maxConcurrentChildren', fanOut.maxConcurrentChildren);
      const { agent } = run.assignment;
      const mergeGuard = agent && guardOf(agent.definition);
      const named = { ...functions, hasAgent: (id: string) => agents.has(id), mergeGuard };
      return fanOutOrchestration({ ...fanOut, maxConcurrentChildren }, { runId, input }, named);
    }
    case 'evaluate': {
      const { maxIterations } = work.evaluate;
      const bounded = { maxIterations: boundOf('maxIterations', maxIterations) };
      return keptFrom(run, { maxIterations }, bounded, (given) =>
        evaluateOrchestration({ ...work.evaluate, ...given }, input),
      );
    }
    case 'task': {
      const { task } = work;
      const { limits } = task;
      const bounded = effectiveTaskLimits(functions.adapters.get(task.adapter)?.limits, { limits, raise });
      return keptFrom(run, limits, bounded, (given) =>
        taskOrchestration({ ...task, limits: given }, runId, functions.adapters),
      );
    }
    default:
      return assertNever(work);
  }
}

const boundsKey = 'bounds';

/**
 * An orchestration under the bounds that its author gave when it began. They are its first step where they are less than was
 * asked for: a replay must end at the same point, also when the author has changed them since.
 */
function keptFrom<T>(run: OpenRun, asked: T, bounded: T, orchestrationFor: (given: T) => Orchestration): Orchestration {
  const isKept = run.state.orchestration.facts.some((fact) => fact.kind === 'step' && fact.key === boundsKey);
  const isLess = canonicalJson(asked) !== canonicalJson(bounded);
  if (!isKept && (hasBegun(run) || !isLess)) return orchestrationFor(asked);
  return async (host) => await orchestrationFor((await host.step(boundsKey, () => bounded)) as T)(host);
}
