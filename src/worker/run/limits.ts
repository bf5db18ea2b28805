import { limits, type AgentDefinition, type Limits } from '../../shared/agent.ts';
import type { RunRequest } from '../../shared/run.ts';

/** Upper bounds that this worker sets for everybody. */
export interface LimitCaps {
  readonly maxSteps: number;
}

/** The limits of one run: the request's over the agent's over the defaults, bounded by the worker's caps. */
export function effectiveLimits(definition: AgentDefinition, request: RunRequest, caps: LimitCaps): Limits {
  const { deadlineMs: _, ...own } = definition.limits;
  const asked = { ...own, ...request.limits };
  const maxSteps = request.overrides?.maxTurns ?? asked.maxSteps;
  const merged = limits.parse({ ...asked, ...(maxSteps !== undefined && { maxSteps }) });
  return { ...merged, maxSteps: Math.min(merged.maxSteps, caps.maxSteps) };
}
