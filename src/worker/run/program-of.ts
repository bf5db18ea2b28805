import { asRunError, RunError } from '../../shared/errors.ts';
import type { TurnOutcome } from '../turn/turn.ts';
import { fanOutProgram } from './fan-out-run.ts';
import { effectiveLimits } from './limits.ts';
import type { NamedFunctions } from './named-functions.ts';
import { unknownAgent, type OpenRun, type RunDeps } from './open.ts';
import { refused } from './outcome.ts';
import { runProgram } from './program-run.ts';
import type { Program } from './program.ts';

const noFunctions: NamedFunctions = { judges: new Map(), merges: new Map(), adapters: new Map() };

/** Does what the request asks for in place of a turn. Never rejects. */
export async function workAsProgram(run: OpenRun, deps: RunDeps): Promise<TurnOutcome> {
  const { agent, record, signals, state, clock } = run;
  const { request, startedAt } = record;
  if (run.refusal) return refused(run, run.refusal);
  if (!agent) return refused(run, unknownAgent(request.agent));
  const { wallTimeMs } = effectiveLimits(agent.definition, request, deps.limitCaps);
  signals.limitWallTime(wallTimeMs, startedAt ? clock.now() - Date.parse(startedAt) - state.suspendedMs : 0);
  try {
    return await runProgram(programOf(run, deps), run, () => {
      if (signals.cancelRequest?.drain) return 'drain';
      return deps.stopping() ? 'hand_over' : undefined;
    });
  } catch (thrown) {
    return refused(run, asRunError(thrown));
  }
}

function programOf({ record: { runId, request } }: OpenRun, { functions = noFunctions, agents }: RunDeps): Program {
  const { fanOut, input } = request;
  if (fanOut) return fanOutProgram(fanOut, { runId, input }, { ...functions, hasAgent: (id) => agents.has(id) });
  throw new RunError('internal', 'the request asks for no program');
}
