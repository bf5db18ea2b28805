import type { z } from 'zod';
import type {
  ModelHint,
  Sanitization,
  ToolEffect,
  ToolOptions,
  TruncationStrategy,
  TrustClass,
} from '../../shared/contract/agent/agent.ts';
import type { ToolErrorKind } from '../../shared/base/errors.ts';
import type { EventBody, PendingItem } from '../../shared/contract/event.ts';
import type { ToolFacts } from '../guards/hard-rules.ts';
import type { ArtifactInfo } from '../../shared/state/results/artifacts.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Message, Sensitivity } from '../../shared/contract/message.ts';

/** What a tool's code receives beside its arguments. */
export interface ToolContext {
  readonly runId: string;
  readonly tenant: string;
  readonly toolCallId: string;
  /** Stable over retries, workers and crashes: send it to the system that performs the effect. */
  readonly idempotencyKey: string;
  /** As the agent has the tool: a `once` call must not be made a second time, whatever became of the first. */
  readonly effect: ToolEffect;
  /** Aborted on cancel and on timeout. A tool that ignores it is abandoned after a short grace. */
  readonly signal: AbortSignal;
  /** Shows subscribers how far the call is (`tool.execute.progress`). */
  progress(data: unknown): void;
  /** Shows subscribers a part of the result early (`tool.execute.partial`). */
  partial(data: unknown): void;
  readonly secrets: {
    /**
     * The value of one that `secretsAllowed` names. Throws a `capability_blocked` error for any other, and for one that this
     * worker does not have.
     */
    readonly get: (name: string) => string;
  };
  /** The folder that tools of this agent may read (`MILLRACE_FILES`, `fileScope`). Absent: there is none. */
  readonly workspaceDir?: string;
  /** The agent's `directories`, in full. Absent: there are none. */
  readonly directories?: readonly string[];
  /** Log lines of this call, with its run. */
  readonly logger: Log;
}

/** What tools of this package may do beyond that. */
export interface HostContext extends ToolContext {
  /** When this call began for the first time, on whatever worker: milliseconds since the epoch. Absent: it is not known. */
  readonly startedAtMs?: number;
  readonly emit: (event: EventBody) => void;
  /** What the model of this run may call, the deferred tools included. */
  readonly catalogue: () => readonly CatalogueEntry[];
  /** Lets the model call these deferred tools from the next step on. */
  readonly promote: (names: readonly string[]) => void;
  /**
   * Calls a tool on behalf of this call, through every check that the model's own calls pass. A call with a side effect
   * that was already made by an earlier, interrupted run of the same script gives the same answer as then. Never rejects.
   */
  callTool(name: string, args: unknown): Promise<InnerOutcome>;
}

export interface CatalogueEntry {
  readonly name: string;
  readonly description: string;
  readonly parameters: Record<string, unknown>;
  readonly deferred: boolean;
  /** It may need a person's approval, so that scripts cannot call it. */
  readonly gated: boolean;
}

/** What a script gets for a call: plain JSON. */
export type InnerOutcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly kind: ToolErrorKind; readonly message: string };

/** What `reconcile` found out about a call whose worker died. */
export type Reconciliation =
  | { readonly outcome: 'done'; readonly result: unknown }
  | { readonly outcome: 'not_done' }
  | { readonly outcome: 'unknown' };

/** A worked example of a call, for the model. */
export interface ToolExample {
  readonly args: Record<string, unknown>;
  /** When such a call is right, or what it answers. */
  readonly note?: string | undefined;
}

/** What made a text that another tool reads back. */
export type ResultOrigin = Omit<ArtifactInfo, 'totalBytes'>;

/** A result with more than its value. A tool that returns anything else returns the value itself. */
export class ToolOutput {
  readonly value: unknown;
  /** Names where all of it can be read with `read_result`. */
  readonly handle: string | undefined;
  /** The tool reports that it failed: the model gets the value as the error. */
  readonly isError: boolean;
  /** What made the value, where that is another tool: it is sanitised, labelled and withheld like a result of that one. */
  readonly origin: ResultOrigin | undefined;

  constructor(
    value: unknown,
    options: { readonly handle?: string | undefined; readonly isError?: boolean; readonly origin?: ResultOrigin } = {},
  ) {
    this.value = value;
    this.handle = options.handle;
    this.isError = options.isError ?? false;
    this.origin = options.origin;
  }
}

/** Whether a call needs a person's approval. A throw counts as yes. */
export type ApprovalPredicate<Args> = (
  args: Args,
  call: { readonly runId: string; readonly tenant: string },
) => boolean | Promise<boolean>;

/** A tool as its author writes it. Times in milliseconds. */
export interface ToolDefinition<Input extends z.ZodType = z.ZodType> {
  /** 1 to 64 of A-Z a-z 0-9 _ - */
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Input;
  /**
   * `read`: no side effects. `idempotent`: may be repeated with the same key. `once` (default): a call whose outcome is
   * unknown after a crash is never repeated by us.
   */
  readonly effect?: ToolEffect;
  execute(args: z.output<Input>, context: ToolContext): unknown;
  /** For `once`: asks the outside whether the call with this key took effect. */
  reconcile?(key: string, args: z.output<Input>, signal: AbortSignal): Promise<Reconciliation>;
  /** For `once` without an answer from `reconcile`: report it to the model (default), suspend the run, or fail it. */
  readonly onUnknown?: 'report' | 'suspend' | 'fail';
  /** The run waits, without a worker, until a person has granted or denied the call. */
  readonly needsApproval?: boolean | ApprovalPredicate<z.output<Input>>;
  /** `sequential` never overlaps any other call of its step. Default `parallel`. */
  readonly executionMode?: 'parallel' | 'sequential';
  /** The model does not see it until it has found it with `tool_search`. */
  readonly deferLoading?: boolean;
  /** The same, as other systems write it. */
  readonly defer_loading?: boolean;
  /** Checks what `execute` answers: anything else is an `invalid_output` error. */
  readonly outputSchema?: z.ZodType;
  /** At most 5, checked against the schema, sent to the model with the description. */
  readonly examples?: readonly ToolExample[];
  /**
   * How far its results may travel. `internal` and `secret` ones are withheld from model providers that do not accept
   * them; `secret` ones are never kept outside the journal. Default `public`.
   */
  readonly sensitivity?: Sensitivity;
  /** Names of tool secrets that `context.secrets.get` answers. Default none. */
  readonly secretsAllowed?: readonly string[];
  /** In place of what its trust class asks for: for tools that return text which others wrote. */
  readonly inboundSanitization?: Sanitization;
  /** Where its results come from. Default `user-defined`. */
  readonly trust?: TrustClass;
  /** What the call would touch, for the operator's hard rules. */
  facts?(args: z.output<Input>): ToolFacts;
  /** The model for the step after a call of this tool: a tier of the agent's `modelTierMap`, or one model of a provider. */
  readonly preferredModel?: ModelHint;
  /** Default 60,000. */
  readonly timeoutMs?: number;
  /** Upper bound of the result text in tokens of four bytes. Default 16,384; never more than 50 KB, which is all that 0 sets. */
  readonly maxResultTokens?: number;
  /** What becomes of a result beyond that bound. Default `middle`: its beginning and its end are kept. */
  readonly truncationStrategy?: TruncationStrategy;
  /** For `summarize`: shortens a text. A throw, or a text that is still too long, leaves `middle`. */
  summarize?(text: string, signal: AbortSignal): string | Promise<string>;
  /** Shown with approvals and audits. It changes nothing. */
  readonly sideEffectClass?: string;
  /** Shown in audits. Tools written in code run in the worker's own process in any case. */
  readonly sandboxPolicy?: string;
  /** Accepted and without effect. */
  readonly memoryGuardTier?: string;
}

/** What a call has another agent do. */
export interface ChildSpec {
  readonly agentId: string;
  /** The user message of its run; all that it gets beside `history`. */
  readonly input: string;
  readonly history?: readonly Message[] | undefined;
  /** Which of its events the log of this run shows: all but deltas, the end, or none. */
  readonly expose: 'all' | 'final' | 'none';
  /** The tool secrets that it may use. Absent: those that its tools may ask for by themselves. */
  readonly secrets?: readonly string[];
  /** How long it may work, in milliseconds; time in which it is suspended does not count. */
  readonly maxWorkMs?: number;
}

export type CheckedArgs =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly string[] };

/** Which tool of which server this is, whatever the model is shown as its name. */
export interface ToolSource {
  readonly server: string;
  /** What the server calls it. */
  readonly tool: string;
  /** The same in letters that a tool's name may have; alone in the server's list. */
  readonly safeName: string;
  /** Digest of the server's definition: two servers of one name have different ones. */
  readonly definition: string;
}

/** A checked tool with its defaults in place and its JSON Schema made once. */
export interface Tool {
  readonly name: string;
  /** The server that offers it. Absent: it is code of this worker. */
  readonly source?: ToolSource;
  readonly description: string;
  /** Arguments that the agent sets itself, with references to secrets in place of their values. */
  readonly fixedArgs?: NonNullable<ToolOptions['args']>;
  /** JSON Schema of the arguments, as the model sees it. */
  readonly parameters: Record<string, unknown>;
  /**
   * Checks arguments that are plain JSON, and fills in defaults. `fixed`: those that the agent has set, and not the model.
   * A throw is a defect of the tool.
   */
  check(args: unknown, fixed?: readonly string[]): Promise<CheckedArgs>;
  readonly effect: ToolEffect;
  readonly onUnknown: 'report' | 'suspend' | 'fail';
  readonly needsApproval: boolean | ApprovalPredicate<unknown>;
  readonly executionMode: 'parallel' | 'sequential';
  readonly deferLoading: boolean;
  readonly examples: readonly ToolExample[];
  readonly sensitivity: Sensitivity;
  readonly secretsAllowed: readonly string[];
  readonly trust: TrustClass;
  readonly inboundSanitization?: Sanitization;
  readonly facts?: (args: unknown) => ToolFacts;
  readonly preferredModel?: ModelHint;
  readonly timeoutMs: number;
  readonly maxResultTokens: number;
  /** In place of the 50 KB that no other result may pass. */
  readonly maxResultBytes?: number;
  readonly truncationStrategy: TruncationStrategy;
  readonly summarize?: (text: string, signal: AbortSignal) => string | Promise<string>;
  readonly sideEffectClass: string;
  readonly sandboxPolicy?: string;
  /** Instead of running, the call asks a person, and the answer is its result. */
  readonly asks?: (args: unknown) => string;
  /** Instead of running, the call is done by another run, whose answer is its result. A `ToolError` refuses the call. */
  readonly delegate?: (args: unknown, asking: { readonly messages: readonly Message[] }) => ChildSpec;
  /** The agent that does it, for the loader of this tool. */
  readonly carries?: unknown;
  /** Instead of running, the call hands the conversation to this agent once its step is complete. */
  readonly handoff?: string;
  /** Tools of this package get a `HostContext`. */
  execute(args: unknown, context: ToolContext): unknown;
  readonly reconcile?: (key: string, args: unknown, signal: AbortSignal) => Promise<Reconciliation>;
}

/** A run that is to work for another one. */
export interface PlannedRun {
  readonly id: string;
  readonly spec: ChildSpec;
}

/** One that is to do a call. */
export interface PlannedChild extends PlannedRun {
  readonly index: number;
  readonly item: PendingItem;
  readonly requestedAtMs: number;
}
