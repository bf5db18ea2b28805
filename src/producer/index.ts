/** The public door of `millrace`: the producer client and what speaking with it needs. */
export { Millrace } from './millrace.ts';
export { RunHandle } from './run-handle.ts';
export type { EventsOptions, ListQuery, MillraceOptions, ResultOptions } from './options.ts';
export type { BulkAnswer, QueueDepth } from './enqueue.ts';
export type { RedriveAnswer, RedriveRequest } from './redrive.ts';
export type { Diagnosis, DurabilityLevel, RedisFacts, StuckRun, WorkerFacts } from './diagnose.ts';
export { agentView, type AgentView } from '../shared/agent.ts';
export { cancelRequest, type CancelRequest } from '../shared/control.ts';
export { errorInfo, errorTable, RunError, type ErrorCode, type ErrorInfo } from '../shared/errors.ts';
export {
  eventSchema,
  isTerminal,
  parseEvent,
  type EventOf,
  type EventType,
  type PendingItem,
  type RunEvent,
  type RunResultBody,
  type TerminalEventType,
} from '../shared/event.ts';
export { formatUsd, microcentsPerUsd, type Budget, type RunUsage, type Usage } from '../shared/money.ts';
export type { Attempt } from '../shared/journal.ts';
export {
  isTerminalStatus,
  runOutcomeView,
  runRequest,
  runStatus,
  runView,
  type RunOutcomeView,
  type RunRequest,
  type RunRequestInput,
  type RunStatus,
  type RunView,
} from '../shared/run.ts';
