import { z } from 'zod';
import { sensitivity } from '../message.ts';
import { budget } from '../money.ts';
import { handoffFilterDescriptor } from '../handoff/handoff.ts';
import { defined } from '../../base/collections.ts';
import { isRecord } from '../../base/json.ts';
import { publicId } from '../../base/ids.ts';
import { configValue, mcpServers } from './mcp.ts';
import { fileTrust } from '../input-parts.ts';
import { loopGuard } from './loop-guard.ts';
import { policyRule } from './policy.ts';
import { skillName } from './skill.ts';
import { trustClass } from './trust.ts';
import { commentaryMode } from '../commentary.ts';
import { dataFlowPolicy, effectiveFlow, flowMode, type FlowMode } from '../flow.ts';
import { causalityMonitor, mergeGuard, protocolGuard } from './lateral-leak.ts';

/** How often a tool call may take effect. `once` is the default because it is the safe one. */
export const toolEffect = z.enum(['read', 'idempotent', 'once']);
export type ToolEffect = z.infer<typeof toolEffect>;

/**
 * What is done to a tool's result before a model reads it. `pass`: nothing. `flag`: text that looks like an instruction
 * is reported. `wrap`: it is also taken out, and the rest is marked as data of this tool. `block`: the result is refused
 * where such text is found.
 */
export const sanitization = z.enum(['pass', 'flag', 'wrap', 'block']);
export type Sanitization = z.infer<typeof sanitization>;

/** What becomes of a result that is larger than its bound. `spill-to-file`: all of it is kept, for `read_result`. */
export const truncationStrategy = z.enum(['middle', 'tail', 'spill-to-file', 'summarize']);

/** Names of fields and places of lists, with dots between them. */
const valuePath = z
  .string()
  .max(512)
  .regex(/^[\w$-]+(\.[\w$-]+)*$/, 'must be a path such as `metadata.customer`');

/** What the path of an argument may begin with. `inputs` are those of a node. */
export const mappingRoots = ['metadata', 'inputs', 'tenant', 'agentId', 'runId', 'threadId', 'sessionId'] as const;

/** What an agent says about one of its tools, over what the tool says itself. */
export const toolOptions = z.strictObject({
  /** Arguments that the model neither sees nor sets. */
  args: z
    .record(z.string(), z.union([configValue, z.number(), z.boolean(), z.null(), z.record(z.string(), configValue)]))
    .optional(),
  /** Arguments that the model neither sees nor sets, each with where the run has its value. `args` come after them. */
  inputMapping: z
    .record(
      z.string().min(1),
      valuePath.refine(
        (path) => mappingRoots.some((root) => root === path.split('.')[0]),
        `must begin with one of ${mappingRoots.join(', ')}`,
      ),
    )
    .optional(),
  /** What the model gets of a result: one value of it, or an object of several. */
  outputMapping: z.union([valuePath, z.record(z.string().min(1), valuePath)]).optional(),
  needsApproval: z.boolean().optional(),
  deferLoading: z.boolean().optional(),
  effect: toolEffect.optional(),
  timeoutMs: z.int().min(1).max(86_400_000).optional(),
  maxResultTokens: z.int().min(0).optional(),
  truncationStrategy: truncationStrategy.optional(),
  inboundSanitization: sanitization.optional(),
  /** Where its results come from, and how far they may travel. */
  trust: trustClass.exclude(['built-in']).optional(),
  sensitivity: sensitivity.optional(),
  secretsAllowed: z.array(z.string().min(1)).max(64).optional(),
  /** It waits for something, so the loop guard lets it be called with the same arguments again and again. */
  mayRepeat: z.boolean().optional(),
});
export type ToolOptions = z.output<typeof toolOptions>;

const failLike = ['fail', 'fail_fast', 'fail_run', 'retry_then_fail'] as const;
const goOnLike = ['continue', 'continue_with_error', 'retry_then_continue', 'skip_action'] as const;
const degradeLike = ['degrade', 'retry_then_degrade'] as const;

function isOneOf<T extends string>(names: readonly T[], name: string): name is T {
  return names.some((one) => one === name);
}

/** What a failed tool or agent, or a person's denial, does to the run. Every spelling is accepted and read as one of three. */
const callFailure = z.enum(['feed_back', ...failLike, ...degradeLike, ...goOnLike]).transform((spelling) => {
  if (isOneOf(failLike, spelling)) return 'fail';
  return isOneOf(degradeLike, spelling) ? 'degrade' : 'feed_back';
});

/** A year. */
export const maxDeadlineMs = 365 * 86_400_000;

/**
 * Limits of one run. A producer may lower them; raising is bounded by the worker's own configuration.
 * The descriptions are those of the reference and of `/openapi.json`.
 */
export const limits = z.strictObject({
  maxSteps: z
    .int()
    .min(1)
    .max(10_000)
    .default(16)
    .describe(
      'At most N rounds of tool calls, so N + 1 model calls: the last one answers. One more round ends the run.',
    ),
  maxLlmCalls: z
    .int()
    .min(1)
    .max(10_000)
    .default(50)
    .describe('At most N model calls, those that repair an answer included; retries of a call are not counted.'),
  maxToolCalls: z.int().min(1).max(100_000).default(200).describe('At most N tool calls in all rounds together.'),
  wallTimeMs: z
    .int()
    .min(1)
    .max(86_400_000)
    .default(300_000)
    .describe('Milliseconds on a worker, over all segments of a run. Waits without a worker do not count.'),
  maxCorrections: z
    .int()
    .min(0)
    .max(100)
    .default(3)
    .describe('In how many rounds the model may repeat mistakes in its tool calls.'),
  maxParallelTools: z.int().min(1).max(32).default(8).describe('Calls of one round that run at the same time.'),
  subagentFanoutPerStep: z
    .int()
    .min(1)
    .max(64)
    .default(4)
    .describe(
      'How many other agents one step asks. The model gets an error for the rest, and may ask again in its next step.',
    ),
});
export type Limits = z.infer<typeof limits>;

function withoutDefault(field: keyof typeof limits.shape) {
  const described = limits.shape[field];
  return described
    .unwrap()
    .optional()
    .describe(described.description ?? '');
}

/** The same fields, each optional and without a default: what a request or an agent may set. */
export const limitsOverride = z.strictObject({
  maxSteps: withoutDefault('maxSteps'),
  maxLlmCalls: withoutDefault('maxLlmCalls'),
  maxToolCalls: withoutDefault('maxToolCalls'),
  wallTimeMs: withoutDefault('wallTimeMs'),
  maxCorrections: withoutDefault('maxCorrections'),
  maxParallelTools: withoutDefault('maxParallelTools'),
  subagentFanoutPerStep: withoutDefault('subagentFanoutPerStep'),
  closingAnswer: z
    .boolean()
    .optional()
    .describe(
      'At a limit of steps, calls, money or time, one last model call without tools makes an answer of what there is, marked `incomplete`. Its money and its time are kept for it. Default: the run fails.',
    ),
});
export type LimitsOverride = z.infer<typeof limitsOverride>;

/**
 * How much a request may have of what it asks for in places of its own. Its maxima are those of the request. Absent: as much as
 * any request.
 */
export const requestBounds = z.strictObject({
  maxFanOutChildren: z
    .int()
    .min(1)
    .max(256)
    .optional()
    .describe('Of a fan-out. One with more of them fails with `validation`.'),
  maxConcurrentChildren: z
    .int()
    .min(1)
    .max(64)
    .optional()
    .describe('How many children of a fan-out work at the same time.'),
  maxIterations: z.int().min(1).max(50).optional().describe('How often an evaluation asks its generator.'),
  maxNodeTries: z.int().min(1).max(20).optional().describe('How often a node is tried (`nodeRetry`).'),
  maxNodeBackoffMs: z.int().min(0).max(86_400_000).optional().describe('The longest wait between two tries of a node.'),
  maxMediaCount: z.int().min(1).max(10).optional().describe('How many images, sounds or videos a run makes.'),
  maxMediaSeconds: z.int().min(1).max(600).optional().describe('Length of a sound or video.'),
});
export type RequestBounds = z.infer<typeof requestBounds>;

/** What an agent may let callers raise. `retry`: how often a node tries models. */
const raisableField = z.enum(['budget', 'retry', ...limits.keyof().options, ...requestBounds.keyof().options]);
export type RaisableField = z.infer<typeof raisableField>;

const agentLimits = limitsOverride.extend({
  ...requestBounds.shape,
  /**
   * Milliseconds from the acceptance of a run to its end at the latest, from its first start on. A request may give another
   * `deadlineMs`: the earlier one holds.
   */
  deadlineMs: z.int().min(1).max(maxDeadlineMs).optional(),
});

export const backoff = z.enum(['exponential', 'linear']);

export const retry = z.strictObject({
  max: z.int().min(1).max(20),
  backoff: backoff.default('exponential'),
});

const modelName = z.string().trim().min(1, 'must not be blank').max(200);
const modelSpec = z.strictObject({ provider: z.string().min(1), model: modelName });
const fallbackEntry = z.union([modelName, modelSpec]);

export const modelTier = z.enum(['fast', 'balanced', 'smart']);
export type ModelTier = z.infer<typeof modelTier>;
/** A tier, or one model of one provider. */
export const modelHint = z.union([modelTier, modelSpec], 'must be fast, balanced, smart or { provider, model }');
export type ModelHint = z.infer<typeof modelHint>;
const modelTierMap = z.partialRecord(modelTier, fallbackEntry);

/**
 * What happens when no model answered, after all retries and fallbacks: the run fails, or ends as `degraded` with the
 * error as its text. Every spelling of the field is accepted and read as one of the two.
 */
export const llmFailure = z
  .enum([...failLike, ...degradeLike, ...goOnLike])
  .transform((spelling) => (isOneOf(failLike, spelling) ? 'fail' : 'degrade'));

/** Consecutive failures of a model, over all workers, after which no worker calls it for a while. */
export const breakerPolicy = z.strictObject({
  failureThreshold: z.int().min(1).max(1_000).default(5),
  cooldownMs: z.int().min(100).max(3_600_000).default(30_000),
  /** `wait`: where no other model is left, the run waits for the cooldown without a worker instead of failing. */
  onOpen: z.enum(['fail', 'wait']).default('fail'),
});
export type BreakerPolicy = z.infer<typeof breakerPolicy>;

const postRun = z.strictObject({
  /** A title for threads that have none, by the fast model of `modelTierMap`, else by `model`. */
  title: z.boolean().default(true),
  /** Vectors of the messages, where the worker has an embedder. */
  embeddings: z.boolean().default(true),
});

const handoffRule = z.strictObject({
  agent: publicId,
  filter: handoffFilterDescriptor.optional(),
  /** What the model reads about its purpose. Default: the description of the agent. */
  description: z.string().max(2_000).optional(),
});
export type HandoffRule = Readonly<z.output<typeof handoffRule>>;
const handoff = z
  .union([publicId, handoffRule])
  .transform((given): HandoffRule => (typeof given === 'string' ? { agent: given } : given));

const agentTool = z.strictObject({
  agent: publicId,
  description: z.string().min(1).max(4_000).optional(),
  /** Which of its events the log of the asking run shows: all but deltas, the end, or none. */
  exposeTurns: z.enum(['final', 'all', 'none']).default('final'),
  /** Which tool secrets its tools may use: those listed, those that are named with the call, or none. */
  secretsInheritance: z.enum(['inherit-allowlist', 'forward-explicit', 'isolated']).default('inherit-allowlist'),
  inheritSecrets: z.array(z.string().min(1)).max(64).default([]),
  /** What crosses of the conversation. Default: nothing but the input. */
  inputFilter: handoffFilterDescriptor.optional(),
});
export type AgentToolRule = z.output<typeof agentTool>;

/** When and how older messages of a conversation give way to a summary. */
export const compaction = z.strictObject({
  /** Tokens that the agent's models take, for models of which their provider says nothing. Default: 128,000. */
  contextWindow: z.int().min(1_000).max(100_000_000).optional(),
  /** Who writes the summaries. Default: the tier `fast` of `modelTierMap`, else the agent's own model. */
  summarizer: fallbackEntry.optional(),
  /** So many of the latest turns stay word by word; within a long turn, so many of its latest steps. */
  keepTurns: z.int().min(1).max(1_000).default(6),
  /** The same once a provider has refused a request for its length. */
  emergencyKeepTurns: z.int().min(1).max(1_000).default(2),
  summaryMaxTokens: z.int().min(64).max(32_000).default(2_048),
});

export const maxInstructionsChars = 200_000;

const relativeFolder = z
  .string()
  .min(1)
  .max(1_024)
  .refine(
    (path) => !/^([\\/]|[A-Za-z]:)/.test(path) && !path.includes('\0') && !path.split(/[\\/]/).includes('..'),
    'must be a relative path without `..`',
  );

/** How long what the runs of an agent did can be read: never longer than `ARCHIVE_TTL_S`. */
const agentArchive = z.strictObject({ ttlS: z.int().min(60).max(31_622_400) });

/**
 * The declarative part of an agent, the same in YAML and TypeScript. Unknown fields are errors. In YAML `tools` holds
 * names; in TypeScript also tool objects, which the loader replaces by their names after registering them.
 */
export const agentDefinition = z.strictObject({
  id: publicId,
  name: z.string().min(1).max(200).optional(),
  version: z.string().max(64).optional(),
  description: z.string().max(2_000).optional(),
  instructions: z.string().max(maxInstructionsChars).default(''),
  provider: z.string().min(1).optional(),
  model: modelName,
  fallbackModels: z.array(fallbackEntry).max(16).default([]),
  preferredModel: modelHint.optional(),
  modelTierMap: modelTierMap.default({}),
  /** Default: 4 tries, exponential; for nodes 1. */
  retry: retry.optional(),
  /** Names of tools, `mcp:<server>` for all tools of a server, `mcp:<server>/<tool>` for one. */
  tools: z.array(z.string().min(1)).max(128).default([]),
  /** By name of a tool, those of servers by `mcp:<server>/<tool>`. */
  toolOptions: z.record(z.string().min(1), toolOptions).default({}),
  mcpServers: mcpServers.default({}),
  /** Names of capabilities that the worker's operator has registered: each brings servers or tools of its own. */
  capabilities: z.array(z.string().min(1).max(128)).max(64).default([]),
  /** Ids of agents that it may ask, or `*` for all that are loaded beside it: they bring `list_agents` and `ask_agent`. */
  subagents: z
    .array(z.union([publicId, z.literal('*')]))
    .max(64)
    .default([]),
  /** Agents as tools, by the name of the tool. */
  agentTools: z.record(z.string().regex(/^[A-Za-z0-9_-]{1,64}$/), agentTool).default({}),
  /** The jobs that follow its answers in threads. */
  postRun: postRun.default({ title: true, embeddings: true }),
  /** Agents that may take over, each with what crosses to it. Default: the last 10 messages without sensitive results. */
  handoffs: z.array(handoff).max(32).default([]),
  /** `skip`: one that is not registered is left out with a warning. Default: the agent is refused. */
  unknownCapability: z.enum(['fail', 'skip']).default('fail'),
  /** What files of the input are: `user` takes them for the user's own word. Default: a stranger may have written them. */
  inputFiles: z.strictObject({ trust: fileTrust }).optional(),
  /**
   * `sandbox`: whatever its tools and capabilities are, none starts a process or contacts anybody. `controlled` and
   * `unrestricted`: what grants and policies allow; capabilities see which of the two it is.
   */
  trust: z.enum(['sandbox', 'controlled', 'unrestricted']).default('controlled'),
  /** `code-mode`: the model writes scripts that call the tools, and sees only what they return. */
  toolInvocation: z.enum(['direct', 'code-mode']).default('direct'),
  /** Two tools of one name. `auto-prefix`: the later one is called by its source's name. `priority`: it is left out. */
  toolCollisions: z.enum(['auto-prefix', 'priority', 'manual']).default('auto-prefix'),
  /** `headless`: no person can be asked, so a call that needs one is denied. */
  interaction: z.enum(['headless', 'interactive', 'external']).default('external'),
  /** `ttlMs`: undecided for so long counts as denied. `approvers`: how many different people have to grant a call. */
  approvals: z
    .strictObject({
      ttlMs: z
        .int()
        .min(100)
        .max(30 * 86_400_000)
        .default(86_400_000),
      approvers: z.int().min(1).max(10).default(1),
    })
    .default({ ttlMs: 86_400_000, approvers: 1 }),
  /** Where data may flow. Absent: nothing is looked at, unless the operator asks for it. */
  dataFlowPolicy: dataFlowPolicy.optional(),
  /** Watches what crosses between agents once one of them was denied something. Absent: nothing is watched. */
  causalityMonitor: causalityMonitor.optional(),
  /** Of its fan-outs that a judge merges. Absent: nothing is measured. */
  mergeGuard: mergeGuard.optional(),
  /** Control characters in results of tools and answers of its models. Absent: they stay as they are. */
  protocolGuard: protocolGuard.optional(),
  /** What becomes of a text that its model writes beside tool calls, in events, threads and exports. */
  commentary: commentaryMode.default('pass'),
  policies: z.array(policyRule).max(500).default([]),
  /** What a denial by a rule does: the run fails with `tool_denied` (default), or the model gets the denial. */
  policyDenial: z.enum(['fail', 'feed_back']).default('fail'),
  /** What a denial by a person does: the model gets it (default), or the run fails, or ends as `degraded` with the reason as its text. */
  approvalDenial: callFailure.default('feed_back'),
  /** The folder under `MILLRACE_FILES` that `read_file` may read. */
  fileScope: z.string().min(1).max(1_024).optional(),
  /** More folders under `MILLRACE_FILES` that prompt builders, capabilities and tools see. */
  directories: z.array(relativeFolder).max(32).default([]),
  /** Names of skills in the folder `skills` beside the agent. */
  skills: z.array(skillName).max(64).default([]),
  /** Whether the prompt says, once there is a tool result, that results are data and no instructions. */
  untrustedPreamble: z.boolean().default(true),
  /** BCP 47: the language of what this system itself says to the model. */
  locale: z
    .string()
    .regex(/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/, 'must be a BCP 47 language tag')
    .default('en'),
  /** Default: `feed_back`, for nodes `fail`. */
  toolFailure: callFailure.optional(),
  /** What becomes of a run when an agent that it asked has failed. Default: `feed_back`, for nodes `fail`. */
  subagentFailure: callFailure.optional(),
  limits: agentLimits.default({}),
  budget: budget.optional(),
  /** What happens when a run goes in circles. `true`: the defaults; `false`: nothing. Absent: as `LOOP_GUARD` of the worker says. */
  loopGuard: z.union([z.boolean(), loopGuard], 'must be true, false or thresholds').optional(),
  /** What a request may set higher than the agent has it. The rest it may only lower. */
  callersMayRaise: z.array(raisableField).max(raisableField.options.length).default([]),
  maxOutputTokens: z.int().min(1).max(1_000_000).optional(),
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().min(0).max(1).optional(),
  stop: z.array(z.string()).max(4).optional(),
  reasoningEffort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).optional(),
  reasoningRetention: z.enum(['keep', 'strip']).default('keep'),
  /** Absent: a conversation is always sent whole. */
  compaction: compaction.optional(),
  /** What its runs are about. `secret`: their conversations are never summarised. */
  sensitivity: sensitivity.default('internal'),
  /** Whether what its runs did can be read for `ARCHIVE_TTL_S` after their end, or how long. Default: unless it is `secret`. */
  archive: z.union([z.boolean(), agentArchive], 'must be true, false or { ttlS }').optional(),
  outputSchema: z.record(z.string(), z.unknown()).optional(),
  /** `deep` checks the answer against the schema, `parse` only that it is JSON. Default: `deep`, for nodes `parse`. */
  outputValidation: z.enum(['deep', 'parse']).optional(),
  /** How often a wrong answer is sent back to the model with what is wrong about it. */
  outputRepairAttempts: z.int().min(0).max(10).default(0),
  llmFailure: llmFailure.default('fail'),
  breaker: breakerPolicy.default({ failureThreshold: 5, cooldownMs: 30_000, onOpen: 'fail' }),
  /** After a 429, other entries and later steps leave its provider alone for this long, unless it answers before. */
  rateLimitCooldownMs: z.int().min(0).max(3_600_000).default(30_000),
  /** Refused credentials move on to the next model instead of ending the run: for fallbacks with an account of their own. */
  fallbackOnAuth: z.boolean().default(false),
  /** `retry_step`: after a stream that breaks off behind its first text, `step.reset` is emitted and the step is made again. */
  midStream: z.enum(['fail', 'retry_step']).default('fail'),
});

/** What an author writes. */
export type AgentInput = z.input<typeof agentDefinition>;
/** What the system works with: defaults applied. */
export type AgentDefinition = z.output<typeof agentDefinition>;

/** The public part of a loaded agent, as workers announce it and `GET /v1/agents` lists it. */
export const agentView = z.object({
  id: publicId,
  name: z.string().optional(),
  version: z.string().optional(),
  description: z.string().optional(),
  model: z.string(),
  /** All models that it may use, `model` among them. */
  models: z.array(z.string()).optional(),
  tools: z.array(z.string()),
  /** The fields of its structured answer, by `outputSchema`. Absent: it has none. */
  answerFields: z.array(z.string()).optional(),
  /** What its data-flow policy does on its workers: the stricter one of its own mode and theirs. Absent: nothing. */
  dataFlow: flowMode.exclude(['off']).optional(),
  /** What its runs did cannot be read after their end. */
  archive: z.literal(false).optional(),
  /** Seconds for which it can, where that is less than `ARCHIVE_TTL_S`. */
  archiveTtlS: z.number().optional(),
});
export type AgentView = z.infer<typeof agentView>;

/** Every model that an agent names: its own, its fallbacks, and those that it prefers for some steps. */
export function modelsOfAgent(
  definition: AgentDefinition,
): readonly { readonly model: string; readonly provider: string | undefined }[] {
  const { model, provider, fallbackModels, modelTierMap, preferredModel, compaction } = definition;
  const entries = [...fallbackModels, ...Object.values(modelTierMap), compaction?.summarizer];
  const named = entries.filter((entry) => entry !== undefined);
  return [
    { model, provider },
    ...named.map((entry) => (typeof entry === 'string' ? { model: entry, provider: undefined } : entry)),
    ...(typeof preferredModel === 'object' ? [preferredModel] : []),
  ];
}

/** Seconds for which what its runs did is kept after their end, as far as it is the agent's to say. 0: not at all. */
export function archiveTtlOf({ archive, sensitivity: own }: Pick<AgentDefinition, 'archive' | 'sensitivity'>): number {
  if (typeof archive === 'object') return archive.ttlS;
  return (archive ?? own !== 'secret') ? Number.POSITIVE_INFINITY : 0;
}

/** `floor`: the least that the worker asks of every data-flow policy. */
export function agentViewOf(definition: AgentDefinition, floor: FlowMode = 'off'): AgentView {
  const { id, name, version, description, model, tools } = definition;
  const { mode = 'off' } = effectiveFlow(definition.dataFlowPolicy, floor) ?? {};
  const models = [...new Set(modelsOfAgent(definition).map((named) => named.model))];
  const answerFields = answerFieldsOf(definition);
  const dataFlow = mode === 'off' ? undefined : mode;
  const ttlS = archiveTtlOf(definition);
  const archive = ttlS === 0 ? (false as const) : undefined;
  const archiveTtlS = ttlS > 0 && Number.isFinite(ttlS) ? ttlS : undefined;
  return defined({
    id,
    name,
    version,
    description,
    model,
    models,
    tools,
    answerFields,
    dataFlow,
    archive,
    archiveTtlS,
  });
}

const maxAnswerFields = 100;

function answerFieldsOf({ outputSchema }: AgentDefinition): string[] | undefined {
  const properties = outputSchema?.['properties'];
  return isRecord(properties) ? Object.keys(properties).slice(0, maxAnswerFields) : undefined;
}
