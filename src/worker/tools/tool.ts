import { z } from 'zod';
import {
  modelHint,
  sanitization,
  toolEffect,
  truncationStrategy,
  type ModelHint,
  type Sanitization,
  type ToolEffect,
  type ToolOptions,
} from '../../shared/contract/agent/agent.ts';
import { trustClass, type TrustClass } from '../../shared/contract/agent/trust.ts';
import type { ToolChange } from '../../shared/contract/mcp-pins.ts';
import type { ToolErrorKind } from '../../shared/base/errors.ts';
import type { EventBody, PendingItem } from '../../shared/contract/event.ts';
import type { ToolFacts } from '../guards/hard-rules.ts';
import type { ArtifactInfo } from '../../shared/state/results/artifacts.ts';
import type { Log } from '../../shared/base/log.ts';
import { sensitivity as sensitivityLabel, type FlowLabel, type Message } from '../../shared/contract/message.ts';

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
   * Calls a tool on behalf of this call, through every check that the model's own calls pass. One that may need a person is
   * refused. A call with a side effect that was already made by an earlier, interrupted run of the same script gives the same
   * answer as then, whatever has become of the tool. Never rejects.
   */
  callTool(name: string, args: unknown): Promise<InnerOutcome>;
  /** The tools that an earlier, interrupted run of the same script has called with side effects; some may be gone by now. */
  readonly calledBefore: readonly string[];
}

export interface CatalogueEntry {
  readonly name: string;
  readonly description: string;
  readonly parameters: Record<string, unknown>;
  readonly deferred: boolean;
  /** Of the description and the parameters: those of a server's tool are a stranger's text. */
  readonly trust: TrustClass;
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
  /** What of it other tools or agents brought. */
  readonly flow: FlowLabel | undefined;

  constructor(
    value: unknown,
    options: {
      readonly handle?: string | undefined;
      readonly isError?: boolean;
      readonly origin?: ResultOrigin;
      readonly flow?: FlowLabel;
    } = {},
  ) {
    this.value = value;
    this.handle = options.handle;
    this.isError = options.isError ?? false;
    this.origin = options.origin;
    this.flow = options.flow;
  }
}

/** Whether a call needs a person's approval. A throw counts as yes. */
export type ApprovalPredicate<Args> = (
  args: Args,
  call: { readonly runId: string; readonly tenant: string },
) => boolean | Promise<boolean>;

const isFunction = (value: unknown) => typeof value === 'function';

const toolExample = z.strictObject({
  args: z.record(z.string(), z.unknown()),
  /** When such a call is right, or what it answers. */
  note: z.string().max(500).optional(),
});
/** A worked example of a call, for the model. */
export type ToolExample = Readonly<z.infer<typeof toolExample>>;

/** What a tool has from its definition as it is, with its defaults. Times in milliseconds. */
const plainSettings = z.strictObject({
  /** 1 to 64 of A-Z a-z 0-9 _ - */
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 of A-Z a-z 0-9 _ -'),
  description: z.string().trim().min(1, 'must not be empty').max(4_000),
  /**
   * `read`: no side effects. `idempotent`: may be repeated with the same key. `once` (default): a call whose outcome is
   * unknown after a crash is never repeated by us.
   */
  effect: toolEffect.default('once'),
  /** For `once` without an answer from `reconcile`: report it to the model (default), suspend the run, or fail it. */
  onUnknown: z.enum(['report', 'suspend', 'fail']).default('report'),
  /** `sequential` never overlaps any other call of its step. Default `parallel`. */
  executionMode: z.enum(['parallel', 'sequential']).default('parallel'),
  /**
   * How far its results may travel. `internal` and `secret` ones are withheld from model providers that do not accept
   * them; `secret` ones are never kept outside the journal. Default `public`.
   */
  sensitivity: sensitivityLabel.default('public'),
  /** Default 60,000. */
  timeoutMs: z.int().min(1).max(86_400_000).default(60_000),
  /** Upper bound of the result text in tokens of four bytes. Default 16,384; never more than 50 KB, which is all that 0 sets. */
  maxResultTokens: z.int().min(0).default(16_384),
  /** What becomes of a result beyond that bound. Default `middle`: its beginning and its end are kept. */
  truncationStrategy: truncationStrategy.default('middle'),
  /** At most 5, checked against the schema, sent to the model with the description. */
  examples: z.array(toolExample).max(5).readonly().default([]),
  /** Names of tool secrets that `context.secrets.get` answers. Default none. */
  secretsAllowed: z.array(z.string().min(1)).max(64).readonly().default([]),
  /** Where its results come from. Default `user-defined`. */
  trust: trustClass.default('user-defined'),
});

/** What a tool has where its definition sets nothing else. */
export const toolDefaults = plainSettings.omit({ name: true, description: true }).parse({});

/** What `defineTool` takes, with its defaults. Unknown fields are errors: a misspelt `timeoutMs` must not pass unseen. */
export const toolSettings = z.strictObject({
  ...plainSettings.shape,
  /** The model for the step after a call of this tool: a tier of the agent's `modelTierMap`, or one model of a provider. */
  preferredModel: modelHint.optional(),
  needsApproval: z.union([z.boolean(), z.custom(isFunction)], 'must be true, false or a function').default(false),
  /** The model does not see it until it has found it with `tool_search`. */
  deferLoading: z.boolean().optional(),
  /** The same, as other systems write it. */
  defer_loading: z.boolean().optional(),
  /** Checks what `execute` answers: anything else is an `invalid_output` error. */
  outputSchema: z.custom<z.ZodType>((value) => value instanceof z.ZodType, 'must be a zod schema').optional(),
  /** In place of what its trust class asks for: for tools that return text which others wrote. */
  inboundSanitization: sanitization.optional(),
  /** Shown with approvals and audits. It changes nothing. */
  sideEffectClass: z.string().min(1).max(64).optional(),
  /** Shown with approvals: how what it starts is contained. The tool's own code runs in the worker's process in any case. */
  sandboxPolicy: z.string().min(1).max(64).optional(),
  facts: z.custom(isFunction, 'must be a function').optional(),
  /** For `summarize`: shortens a text. A throw, or a text that is still too long, leaves `middle`. */
  summarize: z.custom<NonNullable<Tool['summarize']>>(isFunction, 'must be a function').optional(),
  inputSchema: z.unknown(),
  execute: z.custom(isFunction, 'must be a function'),
  reconcile: z.custom(isFunction, 'must be a function').optional(),
});

type Settings = Readonly<z.input<typeof toolSettings>>;

/** A tool as its author writes it. */
export interface ToolDefinition<Input extends z.ZodType = z.ZodType> extends Omit<
  Settings,
  'inputSchema' | 'execute' | 'reconcile' | 'needsApproval' | 'facts'
> {
  readonly inputSchema: Input;
  execute(args: z.output<Input>, context: ToolContext): unknown;
  /** For `once`: asks the outside whether the call with this key took effect. */
  reconcile?(key: string, args: z.output<Input>, signal: AbortSignal): Promise<Reconciliation>;
  /** The run waits, without a worker, until a person has granted or denied the call. */
  readonly needsApproval?: boolean | ApprovalPredicate<z.output<Input>>;
  /** What the call would touch, for the operator's hard rules. */
  facts?(args: z.output<Input>): ToolFacts;
}

/** What a call has another agent do. */
export interface ChildSpec {
  readonly agentId: string;
  /** The user message of its run; all that it gets beside `history`. */
  readonly input: string;
  readonly history?: readonly Message[] | undefined;
  /** Of the input and the history. Absent: it is not known. */
  readonly flow?: FlowLabel | undefined;
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

/** How the tool of a server is guarded against its server changing it. */
export interface ToolPin {
  readonly onChange: 'refuse' | 'confirm';
  /** What has changed since it was accepted. Rejects when that cannot be found out. */
  changed(signal: AbortSignal): Promise<ToolChange | undefined>;
  /** Accepts the change for all runs of the tenant. */
  accept(change: ToolChange, by: string): Promise<void>;
}

/** A checked tool with its defaults in place and its JSON Schema made once. */
export interface Tool extends Readonly<z.output<typeof plainSettings>> {
  /** The server that offers it. Absent: it is code of this worker. */
  readonly source?: ToolSource;
  /** A tool of this package: it gets a `HostContext`, whatever an agent says about its results. */
  readonly ofPackage?: true;
  /** Absent: its server may change it. */
  readonly pin?: ToolPin | undefined;
  /**
   * Its server has changed it, and no person has accepted that. `withheld`: neither models nor scripts see it. `asked`: only a
   * model may call it, which a person then decides about.
   */
  readonly unaccepted?: 'withheld' | 'asked' | undefined;
  /** Arguments that the agent sets itself, with references to secrets in place of their values. */
  readonly fixedArgs?: NonNullable<ToolOptions['args']>;
  /** The agent lets it be called with the same arguments again and again. */
  readonly mayRepeat?: boolean;
  /** Arguments that the run sets, with where it has their values. */
  readonly inputMapping?: NonNullable<ToolOptions['inputMapping']>;
  /** What of its results counts. */
  readonly outputMapping?: NonNullable<ToolOptions['outputMapping']>;
  /** JSON Schema of the arguments, as the model sees it. */
  readonly parameters: Record<string, unknown>;
  /**
   * Checks arguments that are plain JSON, and fills in defaults. `fixed`: those that the agent has set, and not the model.
   * A throw is a defect of the tool.
   */
  check(args: unknown, fixed?: readonly string[]): Promise<CheckedArgs>;
  readonly needsApproval: boolean | ApprovalPredicate<unknown>;
  readonly deferLoading: boolean;
  readonly inboundSanitization?: Sanitization;
  readonly facts?: (args: unknown) => ToolFacts;
  readonly preferredModel?: ModelHint;
  /** In place of the 50 KB that no other result may pass. */
  readonly maxResultBytes?: number;
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
  execute(args: unknown, context: ToolContext): unknown;
  /** The result as `outputSchema` makes it. Rejects with an `invalid_output` error. Absent: any result will do. */
  readonly checkOutput?: (value: unknown) => Promise<unknown>;
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
