import { z } from 'zod';
import type { ToolErrorKind } from '../../../shared/base/errors.ts';
import { maxErrorChars, maxLogLineChars, maxLogLines, type ScriptLimits } from './limits.ts';

/** Why a script has no value. */
const scriptFailure = z.enum([
  /** Over its length. */
  'source',
  /** The source does not compile. */
  'syntax',
  /** It threw, and did not catch it. */
  'threw',
  /** It waits for something that nothing will ever bring. */
  'stuck',
  /** What it returned is no JSON, or too large. */
  'result',
  'timeout',
  'calls',
  'memory',
  /** Its process died under it, or did what no script can make it do. */
  'crashed',
  'aborted',
  /** No process could be started. */
  'unavailable',
  /** All processes were busy for too long. */
  'busy',
]);
export type ScriptFailure = z.infer<typeof scriptFailure>;

const outcome = z.union([
  /** Without `json` it returned nothing. */
  z.strictObject({ ok: z.literal(true), json: z.string().optional() }),
  z.strictObject({ ok: z.literal(false), reason: scriptFailure, message: z.string().max(2 * maxErrorChars) }),
]);

/** What a script process sends to the worker. It is trusted with nothing: all of it is checked, and none of it is code. */
export const childMessage = z.discriminatedUnion('t', [
  z.strictObject({ t: z.literal('ready') }),
  z.strictObject({ t: z.literal('call'), id: z.int().min(1), name: z.string().max(64), args: z.string() }),
  z.strictObject({
    t: z.literal('done'),
    outcome,
    logs: z.array(z.string().max(maxLogLineChars + 1)).max(maxLogLines + 1),
    /** The process shall run no other script. */
    isSpent: z.boolean(),
  }),
]);
export type ChildMessage = z.infer<typeof childMessage>;
export type ReportedOutcome = z.infer<typeof outcome>;

/** One script, as its process gets it. */
export interface RunOrder {
  readonly t: 'run';
  readonly source: string;
  /** Names under which `tools` has a function. */
  readonly tools: readonly string[];
  readonly limits: ScriptLimits;
  /** The time that the script sees, from its beginning to its end. Milliseconds since the epoch. */
  readonly nowMs: number;
  /** Four 32-bit numbers from which its random numbers come. */
  readonly seed: readonly number[];
}

export interface ScriptCallReply {
  readonly t: 'result';
  readonly id: number;
  readonly result:
    | { readonly ok: true; readonly json: string | undefined }
    | { readonly ok: false; readonly kind: ToolErrorKind; readonly message: string };
}

export type HostMessage = RunOrder | ScriptCallReply;
