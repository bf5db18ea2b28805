import { RunError } from '../../shared/errors.ts';
import type { RunRecord } from '../../shared/run.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import { cashierFor } from './cashier-for.ts';
import { childRulesOf } from './child-rules.ts';
import { evaluateProgram } from './evaluate-program.ts';
import { fanOutProgram } from './fan-out-run.ts';
import { effectiveLimits } from './limits.ts';
import type { NamedFunctions } from './named-functions.ts';
import { unknownAgent, type OpenRun, type RunDeps } from './open.ts';
import { refused } from './outcome.ts';
import { runProgram } from './program-run.ts';
import type { Program } from './program.ts';
import { StepGate } from './step-gate.ts';
import { taskProgram } from './task-program.ts';

const noFunctions: NamedFunctions = { judges: new Map(), merges: new Map(), adapters: new Map() };

/** Does what the request asks for in place of a turn. Never rejects. */
export async function workAsProgram(run: OpenRun, deps: RunDeps): Promise<TurnOutcome> {
  const { agent, record, signals } = run;
  const { request } = record;
  if (run.refusal) return refused(run, run.refusal);
  if (!agent && !request.taskRun) return refused(run, unknownAgent(request.agent));
  const limits = agent && effectiveLimits(agent.definition, request, deps.limitCaps);
  // A task has limits of its own, and the time in which it asks does not count there.
  const wallTimeMs = request.taskRun ? request.limits?.wallTimeMs : limits?.wallTimeMs;
  if (wallTimeMs !== undefined) signals.limitWallTime(wallTimeMs, run.workedMs());
  return await runProgram(programOf(record, deps), run, {
    gate: new StepGate(cashierFor(run, deps)),
    rules: run.agent && childRulesOf(run.agent, run.record, deps.tools.policyOf),
    stopRequested() {
      if (signals.cancelRequest?.drain) return 'drain';
      return deps.stopping() ? 'hand_over' : undefined;
    },
  });
}

function programOf({ runId, request }: RunRecord, { functions = noFunctions, agents }: RunDeps): Program {
  const { fanOut, evaluate, taskRun, input } = request;
  if (fanOut) return fanOutProgram(fanOut, { runId, input }, { ...functions, hasAgent: (id) => agents.has(id) });
  if (evaluate) return evaluateProgram(evaluate, input);
  if (taskRun) return taskProgram(taskRun, runId, functions.adapters);
  return async () => {
    throw new RunError('internal', 'the request asks for no program');
  };
}
