import type { EventOf, EventType, RunEvent } from '../contract/event.ts';
import { envelopeNames } from '../contract/plain/event-names.ts';

/** An event as another system would have emitted it. Always a plain JSON object with a type. */
export interface DialectEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** What a dialect says beside the events of a run. */
export interface DialectContext {
  readonly tenant: string;
}

/**
 * Translates the events of one run. It keeps a state, and reaches nothing outside. It must see every event of the log, in
 * order, each once; the same log always gives the same output.
 */
export type Projector = (event: RunEvent) => readonly DialectEvent[];
export type Dialect = (context: DialectContext) => Projector;

/** A check for some types. What it lets through is narrowed, and so is what is left over. */
export function among<const T extends readonly EventType[]>(
  types: T,
): (event: RunEvent) => event is EventOf<T[number]> {
  const known: ReadonlySet<string> = new Set(types);
  return (event): event is EventOf<T[number]> => known.has(event.type);
}

/** The events that such a check lets through. */
export type Among<Check> = Check extends Narrowing<infer E> ? E : never;
type Narrowing<E extends RunEvent> = (event: RunEvent) => event is E;

/** What only our own machinery has words for, and the words of the task lifecycle. */
export const isMachinery = among([
  'run.queued',
  'execution.started',
  'run.recovered',
  'run.resumed',
  'policy.decision',
  'agent.loop.detected',
  'usage.recorded',
  'tool.outcome_unknown',
  'capability.skipped',
  'mcp.tools_changed',
  'mcp.tool_accepted',
  'dataflow.flagged',
  'dataflow.asked',
  'dataflow.blocked',
  'dataflow.declassified',
  'task.start',
  'task.readiness',
  'task.questions',
  'task.acquisition',
  'task.observe',
  'task.validate',
  'task.decide',
  'task.act',
  'task.step',
  'task.end',
]);

/** Borders of turns and steps, and what people decided: other events say what matters about them. */
export const isBorder = among([
  'agent.start',
  'agent.end',
  'agent.error',
  'step.end',
  'tool.approval.granted',
  'tool.approval.denied',
]);

/** What agents send to people by themselves. */
export const isCapability = among([
  'capability.file_sent',
  'capability.note_shared',
  'capability.pin_changed',
  'capability.user_notified',
]);

/** Agents beside each other, what guards found, artifacts, and the files of inputs. */
export const isTeamwork = among([
  'handoff',
  'subagent.event',
  'agent.fanout.spawned',
  'agent.fanout.merged',
  'agent.evaluator.iteration',
  'agent.evaluator.converged',
  'agent.lateral-leak.detected',
  'agent.progress.written',
  'agent.progress.read',
  'guardrail.tripped',
  'file.generated',
  'input.file_fetched',
  'input.file_expired',
  'source.cited',
  'verifier.result',
  'agent.steered',
  'agent.followup.queued',
  'agent.cancelling',
  'context.compacted',
]);

/** How the arguments of a call come in, and what a tool says on the way. */
export const isToolDetail = among([
  'tool.call.start',
  'tool.call.delta',
  'tool.call.end',
  'tool.call.incomplete',
  'tool.execute.progress',
  'tool.execute.partial',
]);

/** Nodes, money and time limits. */
export const isGovernance = among([
  'node.started',
  'node.completed',
  'node.failed',
  'node.retrying',
  'media_job.submitted',
  'budget.warning',
  'budget.paused',
  'run.suspended',
  'run.timeout',
]);

/** An event without its envelope. */
export function bodyOf(event: RunEvent): DialectEvent {
  const fields = Object.entries(event).filter(([field]) => !Object.hasOwn(envelopeNames, field));
  return Object.fromEntries(fields) as unknown as DialectEvent;
}

/** All tokens of a prompt, cached or not. Our own counts keep them apart. */
export function grossInput(usage: {
  readonly input: number;
  readonly cached: number;
  readonly cacheWrite: number;
}): number {
  return usage.input + usage.cached + usage.cacheWrite;
}
