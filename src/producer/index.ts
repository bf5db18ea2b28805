/** The public door of `millrace`: the producer client and what speaking with it needs. */
export { Millrace } from './millrace.ts';
export type { EvaluateRun, FanOutRun, TaskRun, TaskRunOptions } from './programs.ts';
export { RunHandle } from './run-handle.ts';
export type {
  DialectEventsOptions,
  EventsOptions,
  ListQuery,
  MillraceOptions,
  ResultOptions,
  RunFact,
} from './options.ts';
export { handleChatTurn, type ChatTurnResult, type HandleChatTurnInput } from './chat/handle-chat-turn.ts';
export type { ChatLine, ChatLinesOptions } from './chat/chat-lines.ts';
export { chatTurnRequest, type ChatTurnRequest } from './chat/chat-request.ts';
export { ChatTurn } from './chat/chat-turn.ts';
export type { ChatOptions } from './chat/open-turn.ts';
export type { ChatEvent, ChatTurnIdentity } from './chat/chat-event.ts';
export type { AnsweredTurn, ChatTurnHooks, ChatTurnLog, ChatTurnProducer } from './chat/hooks.ts';
export { runProducer } from './chat/run-producer.ts';
export {
  createMemoryChatTurns,
  type ChatTurnStore,
  type FinishedTurn,
  type MemoryChatTurnsOptions,
} from './chat/turn-store.ts';
export { Budgets, type BudgetSettings, type TopUpOptions, type TopUpRequest } from './budgets.ts';
export type { CostGroup, CostGroupRow, CostQuery, CostReport } from './costs.ts';
export type { ApprovalKind, ApprovalsQuery, ApprovalView } from './approvals.ts';
export type { DecideOptions, DecisionAnswer } from './decide.ts';
export type { ApproveCalls, DenyCalls } from './verdicts.ts';
export type { DecisionView, VoteView } from '../shared/decisions.ts';
export type { MediaFile } from './media.ts';
export type { MediaPart, MediaRequest } from '../shared/media.ts';
export type { NodeRetry, RunNode } from '../shared/node.ts';
export type { ProgressEntry, ProgressQuery } from './progress.ts';
export type { BulkAnswer, QueueDepth, QueueState } from './enqueue.ts';
export {
  Threads,
  type MessagesQuery,
  type ThreadChanges,
  type ThreadEventsQuery,
  type ThreadsQuery,
} from './threads.ts';
export type { ThreadExportLine } from '../shared/thread-export.ts';
export type { MessagesPage } from './thread-messages.ts';
export type { ThreadPurge } from '../shared/thread-index.ts';
export type { ThreadEvent, ThreadEventsPage } from '../shared/thread-event.ts';
export type { ThreadItem, ThreadView } from '../shared/thread-items.ts';
export type { ThreadEntry, ThreadManifest } from '../shared/thread.ts';
export type { RedriveAnswer, RedriveRequest } from './redrive.ts';
export type { WriteProblem } from '../shared/write-probe.ts';
export type { Diagnosis, DurabilityLevel, RedisFacts, StuckRun, WorkerFacts } from './diagnose.ts';
export type { BreakerFacts, LimiterFacts, MoneyFacts, PeopleFacts, WaitFacts } from './diagnose-waits.ts';
export { agentView, type AgentView } from '../shared/agent.ts';
export { cancelRequest, decisionRequest, type CancelRequest, type DecisionInput } from '../shared/control.ts';
export type { DialectEvent } from '../shared/dialects/dialect.ts';
export { dialectNames, projectEvents, type DialectName, type ProjectOptions } from '../shared/dialects/project.ts';
export { deriveExecutionId, deriveThreadId, type Session, type TurnOfSession } from '../shared/execution-id.ts';
export { errorInfo, errorTable, RunError, type ErrorCode, type ErrorInfo } from '../shared/errors.ts';
export {
  eventSchema,
  isTerminal,
  parseEvent,
  type EventOf,
  type EventType,
  type PendingView,
  type RunEvent,
  type RunResultBody,
  type TerminalEventType,
} from '../shared/event.ts';
export {
  formatUsd,
  microcentsPerUsd,
  type Budget,
  type BudgetScope,
  type BudgetView,
  type RunUsage,
  type Usage,
} from '../shared/money.ts';
export type { Attempt } from '../shared/journal.ts';
export type { EventProfile } from '../shared/profile.ts';
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
