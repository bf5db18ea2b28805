import type { AgentView } from '../../shared/contract/agent/agent.ts';
import type { AgentDetail } from '../../shared/contract/agent/agent-detail.ts';
import type { RunExport } from '../../shared/contract/archive/run-export.ts';
import type { RunSteps } from '../../shared/contract/archive/run-steps.ts';
import type { ProgressNote, ProgressQuery } from '../../shared/contract/artifacts.ts';
import type { CancelRequest, DecisionInput } from '../../shared/contract/control.ts';
import type { ErasureKeyView } from '../../shared/contract/erasure/receipt.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { FleetView } from '../../shared/contract/report/fleet.ts';
import type { ProviderReport } from '../../shared/contract/provider-report.ts';
import type { RunOutcomeView, RunRequestInput, RunView } from '../../shared/contract/run.ts';
import type { SeriesReport } from '../../shared/contract/report/series.ts';
import type { WriteProblem } from '../../shared/state/write-probe.ts';
import type { ApprovalsPage, ApprovalsQuery } from './approvals.ts';
import type { MediaFile, ProgressEntry, ProgressInput, ProgressWriting } from './artifacts.ts';
import type { Rights } from './accept/validate.ts';
import type { AuditPage, AuditQuery } from './audit/audit.ts';
import type { Batches } from './batches/batches.ts';
import type { Budgets } from './budgets.ts';
import type { OpenTurn } from './chat/known-turn.ts';
import type { ChatOptions, ChatTurnRequest } from './chat/open-turn.ts';
import type { CostReport } from '../../shared/contract/report/costs.ts';
import type { CostQuery } from './costs.ts';
import type { DecideOptions, DecisionAnswer } from './decide.ts';
import type { JudgedDiagnosis } from './diagnose/checks.ts';
import type { Accepted, BulkAnswer, QueueState } from './enqueue.ts';
import type { EraseRequest, ErasureAnswer } from './erase/request.ts';
import type { Files } from './files/files.ts';
import type { FlowReport, FlowReportQuery } from './flows/flow-report.ts';
import type { FlowsPage, FlowsQuery } from './flows/flows.ts';
import type { ListQuery, RunsPage } from './list-runs.ts';
import type { CancelManyRequest, ManyAnswer, RunCounts } from './many-runs.ts';
import type { McpPins } from './mcp-pins.ts';
import type { ResultOptions } from './options.ts';
import type { RedriveAnswer, RedriveRequest } from './redrive.ts';
import type { RunFilter } from './run-filter.ts';
import type { SeriesQuery } from './series/series.ts';
import type { Threads } from './threads.ts';
import type { WireStore } from './wire/wire-store.ts';

/** From which event on, and until when. */
export interface FollowOptions {
  /** The last number that the caller has. */
  readonly after: number;
  readonly signal: AbortSignal | undefined;
  /** Not from the archive, which keeps no text deltas. */
  readonly whole?: boolean | undefined;
}

/** On whose behalf a client asks. */
export interface Identity {
  readonly tenant: string;
  /** `operator`: may raise what operators have set, and change the money of the tenant. */
  readonly rights: Rights;
}

/**
 * What the client asks for on behalf of one tenant. It has two forms: over Redis (`redis-operations.ts`), and over HTTP
 * (`remote/`). Each method promises what the method of the same name of `Millrace` does, and throws the same errors.
 */
export interface Operations {
  /** Undefined over HTTP, where the producer knows it. */
  readonly tenant: string | undefined;
  whoami(): Promise<Identity>;
  readonly batches: Batches;
  readonly budgets: Budgets;
  readonly files: Files;
  readonly mcpPins: McpPins;
  readonly threads: Threads;
  /** Only over Redis. */
  readonly wire?: WireStore;
  accept(request: RunRequestInput, signal: AbortSignal | undefined): Promise<Accepted>;
  acceptMany(requests: readonly unknown[]): Promise<readonly BulkAnswer[]>;
  submitTurn(request: ChatTurnRequest, options: ChatOptions): Promise<OpenTurn>;
  findTurn(executionId: string): Promise<OpenTurn>;
  get(runId: string): Promise<RunView>;
  steps(runId: string): Promise<RunSteps>;
  export(runId: string): Promise<RunExport>;
  findRunId(beginning: string): Promise<string>;
  list(query: ListQuery): Promise<RunsPage>;
  count(filter: RunFilter): Promise<RunCounts>;
  result(runId: string, options: ResultOptions): Promise<RunOutcomeView>;
  events(runId: string, options: FollowOptions): AsyncIterable<RunEvent>;
  firehose(signal: AbortSignal | undefined): AsyncIterable<RunEvent>;
  cancel(runId: string, request: Partial<CancelRequest>): Promise<RunView>;
  cancelMany(request: CancelManyRequest): Promise<ManyAnswer>;
  decide(runId: string, decision: DecisionInput, options: DecideOptions): Promise<DecisionAnswer>;
  redrive(request: RedriveRequest): Promise<RedriveAnswer>;
  approvals(query: ApprovalsQuery): Promise<ApprovalsPage>;
  flows(query: FlowsQuery): Promise<FlowsPage>;
  flowReport(query: FlowReportQuery): Promise<FlowReport>;
  erase(request: EraseRequest): Promise<ErasureAnswer>;
  erasureKey(): Promise<ErasureKeyView>;
  audit(query: AuditQuery): Promise<AuditPage>;
  costs(query: CostQuery): Promise<CostReport>;
  series(query: SeriesQuery): Promise<SeriesReport>;
  media(handle: string): Promise<MediaFile>;
  progress(runId: string, query: ProgressQuery): Promise<readonly ProgressEntry[]>;
  writeProgress(runId: string, note: ProgressInput, options: ProgressWriting): Promise<ProgressNote>;
  agents(): Promise<readonly AgentView[]>;
  agent(id: string): Promise<AgentDetail>;
  registerAgents(agents: readonly AgentView[]): Promise<void>;
  forgetAgents(ids: readonly string[]): Promise<void>;
  queueDepths(): Promise<Readonly<Record<string, QueueState>>>;
  providers(): Promise<readonly ProviderReport[]>;
  fleet(): Promise<FleetView>;
  diagnose(): Promise<JudgedDiagnosis>;
  writeProblem(): Promise<WriteProblem | undefined>;
  /** The same for another tenant. `undefined` rights are those of this one. */
  forTenant(tenant: string, rights: Rights | undefined, requestId: string | undefined, by?: string): Operations;
  /** Ends all iterations and closes the connections, unless they are another's. */
  close(): Promise<void>;
}
