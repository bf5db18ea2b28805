/** The public door of `millrace`: the producer client and what speaking with it needs. */
import '../shared/base/node-version.ts';

export { Millrace } from './client/millrace.ts';
export { MillraceClient } from './client/facade.ts';
export type { Identity } from './client/operations.ts';
export type { RemoteOptions } from './client/remote/options.ts';
export { RunHandle, type ApproveCalls, type DenyCalls } from './client/run-handle.ts';
export type {
  DialectEventsOptions,
  EvaluateRun,
  EventsOptions,
  FanOutRun,
  MillraceOptions,
  ResultOptions,
  RunFact,
  TaskRun,
  TaskRunOptions,
} from './client/options.ts';
export type {
  CallView,
  ChildView,
  RunSteps,
  SegmentView,
  ShownMessage,
  StepView,
  WaitView,
} from '../shared/contract/archive/run-steps.ts';
export type { RunExport } from '../shared/contract/archive/run-export.ts';
export type { ListQuery, RunsPage } from './client/list-runs.ts';
export type { CancelManyRequest, ManyAnswer, RunCounts } from './client/many-runs.ts';
export type { RunFilter } from './client/run-filter.ts';
export { handleChatTurn, type ChatTurnResult, type HandleChatTurnInput } from './chat/handle-chat-turn.ts';
export type { OpenTurn } from './client/chat/known-turn.ts';
export type { ChatLine } from './client/chat/chat-line.ts';
export { ChatTurn, type ChatLinesOptions } from './client/chat/chat-turn.ts';
export { chatTurnRequest, type ChatOptions, type ChatTurnRequest } from './client/chat/open-turn.ts';
export {
  runProducer,
  type AnsweredTurn,
  type ChatEvent,
  type ChatTurnHooks,
  type ChatTurnIdentity,
  type ChatTurnLog,
  type ChatTurnProducer,
} from './chat/hooks.ts';
export {
  createInMemoryChatTurns,
  type ChatTurnStore,
  type FinishedTurn,
  type InMemoryChatTurnsOptions,
} from './chat/turn-store.ts';
export type { McpPins, AcceptedPins, AcceptPinsOptions, AcceptPinsRequest } from './client/mcp-pins.ts';
export type { DescribedTool, PinnedTool, ServerPins, ToolChange } from '../shared/contract/mcp-pins.ts';
export type {
  AdvanceOptions,
  Batches,
  BatchesPage,
  BatchesQuery,
  BatchNews,
  CreateBatchOptions,
  RedrivenBatch,
} from './client/batches/batches.ts';
export type { BatchQuote, BatchRequestInput, BatchStatus, BatchView } from '../shared/contract/batch.ts';
export type { Budgets, BudgetSettings, TopUpOptions, TopUpRequest } from './client/budgets.ts';
export type { CostGroup, CostGroupRow, CostReport } from '../shared/contract/report/costs.ts';
export type { CostQuery } from './client/costs.ts';
export type { AuditPage, AuditQuery, AuditView } from './client/audit/audit.ts';
export type { SeriesQuery } from './client/series/series.ts';
export type { AgentSeries, ModelSeries, SeriesPoint, SeriesReport } from '../shared/contract/report/series.ts';
export type { EraseRequest, ErasureAnswer } from './client/erase/request.ts';
export { type ErasureKeyView, type ErasureReceipt, verifyReceipt } from '../shared/contract/erasure/receipt.ts';
export type { FlowReport, FlowReportQuery } from './client/flows/flow-report.ts';
export type { FlowsPage, FlowsQuery, FlowView } from './client/flows/flows.ts';
export type { ApprovalsPage, ApprovalsQuery } from './client/approvals.ts';
export type { ApprovalKind, ApprovalView } from '../shared/contract/inbox/approvals.ts';
export type { DecideOptions, DecisionAnswer } from './client/decide.ts';
export type { DecisionView, VoteView } from '../shared/contract/decisions.ts';
export type { MediaFile, ProgressEntry, ProgressInput, ProgressWriting } from './client/artifacts.ts';
export type { MediaPart, MediaRequest } from '../shared/contract/media.ts';
export type { NodeRetry, RunNode } from '../shared/contract/node.ts';
export type { ProgressQuery } from '../shared/contract/artifacts.ts';
export type { BulkAnswer, QueueDepth, QueueState } from './client/enqueue.ts';
export type { FileAbout, FileBody, Files, FilesPage, FilesQuery } from './client/files/files.ts';
export type { FilePurpose, FileView } from '../shared/contract/files.ts';
export type { MessagesQuery, ThreadChanges, ThreadEventsQuery, Threads, ThreadsQuery } from './client/threads.ts';
export type { MessagesPage } from './client/thread-messages.ts';
export type { ThreadPurge } from '../shared/state/thread/list.ts';
export type { ThreadEntry, ThreadEvent, ThreadEventsPage, ThreadManifest } from '../shared/contract/thread/thread.ts';
export type { ThreadExportLine, ThreadItem, ThreadView } from '../shared/contract/thread/thread-items.ts';
export type { RedriveAnswer, RedriveRequest } from './client/redrive.ts';
export type { InputFile, InputPart } from '../shared/contract/input-parts.ts';
export type { WriteProblem } from '../shared/state/write-probe.ts';
export type { Check } from './client/diagnose/check.ts';
export type { JudgedDiagnosis } from './client/diagnose/checks.ts';
export type { AgentDetail, ToolDetail } from '../shared/contract/agent/agent-detail.ts';
export type { FleetView, FleetWorker, ProviderLimit } from '../shared/contract/report/fleet.ts';
export type { Diagnosis, DurabilityLevel, RedisFacts, StuckRun, WorkerFacts } from './client/diagnose/diagnose.ts';
export type { ProviderReport } from '../shared/contract/provider-report.ts';
export type { FlowFacts } from './client/diagnose/flow-facts.ts';
export type { BreakerFacts, LimiterFacts, MoneyFacts, PeopleFacts, WaitFacts } from './client/diagnose/wait-facts.ts';
export { agentView, type AgentView } from '../shared/contract/agent/agent.ts';
export { cancelRequest, decisionRequest, type CancelRequest, type DecisionInput } from '../shared/contract/control.ts';
export type { DialectEvent } from '../shared/dialects/dialect.ts';
export {
  dialectNames,
  projectEvents,
  type DialectName,
  type EventProfile,
  type ProjectOptions,
} from '../shared/dialects/project.ts';
export { deriveExecutionId, deriveThreadId, type Session, type TurnOfSession } from '../shared/base/execution-id.ts';
export { errorInfo, errorTable, RunError, type ErrorCode, type ErrorInfo } from '../shared/base/errors.ts';
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
} from '../shared/contract/event.ts';
export {
  formatUsd,
  microcentsPerUsd,
  type Budget,
  type BudgetScope,
  type BudgetView,
  type RunUsage,
  type Usage,
} from '../shared/contract/money.ts';
export type { Attempt } from '../shared/contract/journal/journal.ts';
export {
  isTerminalStatus,
  runOutcomeView,
  runRequestBody,
  runStatus,
  runView,
  type RunOutcomeView,
  type AskedRun,
  type RunInput,
  type RunRequest,
  type RunRequestInput,
  type RunStatus,
  type RunView,
} from '../shared/contract/run.ts';
