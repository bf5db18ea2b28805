/** The public door of the worker side: what agent and tool authors, and applications that run agents themselves, import. */
import '../shared/base/node-version.ts';
import { createAgentWith } from './local/create-agent.ts';
import type { AgentHandle, CreateAgentOptions } from './local/agent-handle.ts';
import type { Agent } from './agents/define-agent.ts';
import { runnerDefaultsWith, type RunnerDefaults, type RunnerDefaultsOptions } from './local/runner-defaults.ts';

export { defineAgent, type Agent, type AgentSource, type DefinedAgent } from './agents/define-agent.ts';
export type { AgentToolOptions } from './agents/agent-tool.ts';
export type { PromptBuilder, PromptContext } from './prompt/system-prompt.ts';
export type { EmbeddedMessage, Embedder } from './jobs/embeddings.ts';
export type { LoadTask } from './agents/load-agents.ts';
export type { TaskDefinition } from '../shared/contract/orchestration/task.ts';
export { defineTool } from './tools/define.ts';
export {
  ToolOutput,
  type ApprovalPredicate,
  type Reconciliation,
  type Tool,
  type ToolContext,
  type ToolDefinition,
  type ToolExample,
} from './tools/tool.ts';
export type {
  AgentToolSettings,
  CapabilityContext,
  CapabilityParts,
  CapabilityResolver,
  SideChannels,
} from './tools/capabilities.ts';
export type { InputFile, InputPart } from '../shared/contract/input-parts.ts';
export type { InputKind } from './llm/provider.ts';
export type { ReadPart, ReadRange, ReadRequest, ResultReader } from './tools/source.ts';
export { ToolError } from './tools/tool-error.ts';
export type { ToolFacts } from './guards/hard-rules.ts';
export { startWorker, type StartWorkerOptions } from './start-worker.ts';
export type { RunningWorker } from './build.ts';
export type { PersonVerdict } from './local/drive.ts';
export type {
  AgentHandle,
  AgentRunOptions,
  AgentStream,
  CreateAgentOptions,
  RunDirective,
  ToolListing,
} from './local/agent-handle.ts';
export { boundary, defaultHandoffFilter, filterFrom, filters } from '../shared/contract/handoff/handoff-filters.ts';
export type { HandoffFilter, SensitivityChoice } from '../shared/contract/handoff/handoff-filters.ts';
export type { HandoffFilterDescriptor } from '../shared/contract/handoff/handoff.ts';
export { replayHandoffs, type ExportedHandoff, type ReplayedHandoff } from './local/replay-handoffs.ts';
export { runFanOut, type FanOutDeps, type FanOutResult } from './orchestration/fan-out.ts';
export type { ChildBudget, FanOutChild, FanOutOptions, MergeStrategy, Spent } from './orchestration/fan-out-options.ts';
export type { ChildOutcome, ChildStatus, FanOutResultChild } from './agents/define-judge.ts';
export type { AnswerMerge, MergeContext, MergeGuard, MergeJudge, MergeToCheck } from './agents/define-judge.ts';
export { defineJudge, defineMerge, type MergeVerdict } from './agents/define-judge.ts';
export { childOf, type StreamingAgent } from './local/agent-handle.ts';
export {
  evaluatorOptimizer,
  type AnswerEvaluator,
  type AnswerGenerator,
  type EvaluatorOptimizerDeps,
  type EvaluatorOptimizerOptions,
  type EvaluatorOptimizerResult,
  type Iteration,
  type Termination,
} from './orchestration/evaluator-optimizer.ts';
export { answerOf, type Evaluation, type Generated, type Judge, type Rubric } from './orchestration/rubric.ts';
export { inPieces, pipe, textFrom, type PieceReader, type PipeOptions, type Piped } from './local/pipe.ts';
export {
  resumeAgentTask,
  resumeAgentTaskStream,
  runAgentTask,
  runAgentTaskStream,
  type AgentTaskOptions,
  type TaskPlace,
  type TaskStream,
} from './orchestration/task/run-task.ts';
export {
  defineTaskAdapter,
  type AgentAdapter,
  type Decision,
  type FoundKnowledge,
  type StopVerdict,
  type TaskAdapter,
  type TaskContext,
  type TaskView,
} from './agents/adapter.ts';
export type { TaskHost } from './orchestration/task/host.ts';
export { createInMemoryLedgerRows, RunLedger } from './orchestration/task/ledger.ts';
export type { LedgerRows, RunLedgerOptions } from './orchestration/task/ledger.ts';
export {
  defineAgentManifest,
  type AgentManifest,
  type AgentManifestSource,
  type ManifestContext,
  type ManifestRubric,
  type RubricDimension,
  type SurfaceName,
} from './local/manifest/define-manifest.ts';
export type { ManifestRun } from './local/manifest/define-manifest.ts';
export { runManifest, type MeasuredRun, type RunManifestOptions } from './local/manifest/run-manifest.ts';
export { scoreWith, type RubricScore } from './local/manifest/run-manifest.ts';
export { runStateFromJSON, runStateToJSON, type RunState } from './local/run-state.ts';
export { createRunner, type AgentRunner } from './local/runner.ts';
export type {
  Engine,
  EngineCallbacks,
  EngineOptions,
  EngineResult,
  LockedRunnerThread,
  ResolverContext,
  RunAgentOverrides,
  RunnerAgent,
  RunnerCallbacks,
  RunnerCollaborators,
  RunnerManifest,
  RunnerThreads,
  RunnerMessage,
  Servers,
} from './local/runner-ports.ts';
export type { LocalThreads, RunnerDefaults, RunnerDefaultsOptions } from './local/runner-defaults.ts';
export type { ModelResolver } from './llm/backends/providers.ts';
export type { PrepareStep, StepPlan, StepView } from './turn/prepare-step.ts';
export type { CompactionAnswer, CompactionSkip, CompactionView, PostCompactionHook } from './turn/compaction/policy.ts';
export { createAgentNodeExecutor } from './local/node-executor.ts';
export type { NodeContext, NodeExecutor, NodeExecutorDeps, NodeOutcome } from './local/node-executor.ts';
export type {
  LlmAnswer,
  LlmPart,
  LlmProvider,
  LlmRequest,
  MediaBytes,
  MediaCall,
  MediaOffer,
  MediaPort,
  MediaStart,
} from './llm/provider.ts';
export { createOpenAICompatibleBackend, type OpenAiCompatibleOptions } from './llm/backends/openai.ts';
export { createIterableBackend, type IterableEnd, type IterableOptions } from './llm/backends/iterable.ts';
export { createSandboxPromptBackend, type SandboxPromptOptions } from './llm/backends/sandbox-prompt.ts';
export type { SandboxEvent } from './llm/backends/sandbox-event.ts';
export { withMiddleware, type Middleware, type MiddlewareKind, type NextCall } from './llm/backends/middleware.ts';
export { LlmError } from './llm/errors.ts';
export type { DialectEvent } from '../shared/dialects/dialect.ts';
export { dialectNames, projectEvents, type DialectName, type ProjectOptions } from '../shared/dialects/project.ts';
export type { Clock } from '../shared/base/clock.ts';
export { RunError, assertNever, type ErrorCode } from '../shared/base/errors.ts';
export type { EventOf, EventType, RunEvent } from '../shared/contract/event.ts';
export { deriveExecutionId, type TurnOfSession } from '../shared/base/execution-id.ts';
export type { Json } from '../shared/base/json-value.ts';
export {
  taskResult,
  type KnowledgeRequirement,
  type LedgerRow,
  type TaskDecision,
  type TaskEval,
  type TaskOutcome,
  type TaskResult,
  type TaskSettings,
  type TaskSpec,
  type TaskState,
  type TaskStep,
} from '../shared/contract/orchestration/task.ts';
export {
  createModelCatalogue,
  getModels,
  resolveChatModel,
  resolveRouterBaseUrl,
  validateChatModelId,
  type CatalogueModel,
  type ModelCandidate,
  type ModelCatalogue,
  type ModelVerdict,
} from '../shared/contract/agent/models.ts';

/**
 * Makes an agent that runs in this process, without Redis: `run` and `stream`. See `CreateAgentOptions` for the
 * provider; without one it is what `OPENAI_API_KEY` and `OPENAI_BASE_URL` say, as for a worker.
 */
export function createAgent(agent: Agent, options: CreateAgentOptions = {}): AgentHandle {
  return createAgentWith(agent, { env: process.env, ...options });
}

/**
 * Everything that `createRunner` works with, for agents in this process: threads in memory, the instructions of an agent as its
 * prompt, and an engine like {@link createAgent}. Replace what is to be otherwise.
 *
 * @example
 * const { runAgent } = createRunner({ ...runnerDefaults({ agents: [support] }), postRun: { dispatch: indexThread } });
 * const { text } = await runAgent('support', 'customer-42', 'Where is order 7?', { onThinking: showDots });
 */
export function runnerDefaults(options: RunnerDefaultsOptions): RunnerDefaults {
  return runnerDefaultsWith({ env: process.env, ...options });
}
