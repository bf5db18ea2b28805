import type { z } from 'zod';
import type { ModelHint, ToolEffect } from '../../shared/agent.ts';
import type { Sensitivity } from '../../shared/message.ts';

/** What a tool's code receives beside its arguments. */
export interface ToolContext {
  readonly runId: string;
  readonly toolCallId: string;
  /** Stable over retries, workers and crashes: send it to the system that performs the effect. */
  readonly idempotencyKey: string;
  /** Aborted on cancel and on timeout. A tool that ignores it is abandoned after a short grace. */
  readonly signal: AbortSignal;
  /** Tells subscribers how far the call is (`tool.execute.progress`). */
  progress(data: unknown): void;
  /** Shows subscribers a part of the result early (`tool.execute.partial`). */
  partial(data: unknown): void;
}

/** What `reconcile` found out about a call whose worker died. */
export type Reconciliation =
  | { readonly outcome: 'done'; readonly result: unknown }
  | { readonly outcome: 'not_done' }
  | { readonly outcome: 'unknown' };

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
  /** For `once` without an answer from `reconcile`: tell the model (default), suspend the run, or fail it. */
  readonly onUnknown?: 'report' | 'suspend' | 'fail';
  /** `sequential` never overlaps any other call of its step. Default `parallel`. */
  readonly executionMode?: 'parallel' | 'sequential';
  /**
   * How far its results may travel. `internal` and `secret` ones are withheld from model providers that do not accept
   * them. Default `public`.
   */
  readonly sensitivity?: Sensitivity;
  /** The model for the step after a call of this tool: a tier of the agent's `modelTierMap`, or one model of a provider. */
  readonly preferredModel?: ModelHint;
  /** Default 60,000. */
  readonly timeoutMs?: number;
  /** Upper bound of the result text in tokens of four bytes. Default 16,384; never more than 50 KB, which is all that 0 sets. */
  readonly maxResultTokens?: number;
}

/** A checked tool with its defaults in place and its JSON Schema made once. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: z.ZodType;
  readonly parameters: Record<string, unknown>;
  readonly effect: ToolEffect;
  readonly onUnknown: 'report' | 'suspend' | 'fail';
  readonly executionMode: 'parallel' | 'sequential';
  readonly sensitivity: Sensitivity;
  readonly preferredModel?: ModelHint;
  readonly timeoutMs: number;
  readonly maxResultTokens: number;
  execute(args: unknown, context: ToolContext): unknown;
  readonly reconcile?: (key: string, args: unknown, signal: AbortSignal) => Promise<Reconciliation>;
}
