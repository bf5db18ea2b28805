import { z } from 'zod';
import { flowSource } from './message.ts';

/**
 * What becomes of a call that would carry untrusted data out, or bring it into effect. `shadow`: it runs, and is reported.
 * `confirm`: a person decides, who sees the flow. `enforce`: it is refused.
 */
export const flowMode = z.enum(['off', 'shadow', 'confirm', 'enforce']);
export type FlowMode = z.infer<typeof flowMode>;

/**
 * Why a call was found.
 *
 * - untrusted-to-sink: its arguments repeat a passage of an untrusted text
 * - untrusted-value: an argument is a value that an untrusted text brought, and neither the user nor a trusted source
 * - argument-origin: an argument does not come from where its rule says
 * - after-untrusted: the tool is not to be called at all once a run has read an untrusted text
 * - lethal-trifecta: the run has seen untrusted text and secret data
 */
export const flowRule = z.enum([
  'untrusted-to-sink',
  'untrusted-value',
  'argument-origin',
  'after-untrusted',
  'lethal-trifecta',
]);
export type FlowRule = z.infer<typeof flowRule>;

/** One reason against one call. Without content: an audit may show it to anybody who may see that the run exists. */
export const flowFinding = z.object({
  rule: flowRule,
  /** Path of the argument, like `to` or `items.0.iban`. Absent: the call as a whole. In events and the audit a model's own names are `*`. */
  argument: z.string().max(256).optional(),
  /** Where the value, or what the run has read, came from. Absent: not known. */
  source: flowSource.optional(),
});
export type FlowFinding = Readonly<z.infer<typeof flowFinding>>;

export const maxFlowFindings = 16;

/** A finding as the person sees it who decides about the call: with the value. */
export const shownFlow = flowFinding.extend({
  /** The beginning of the value, redacted. */
  value: z.string().optional(),
});
export type ShownFlow = Readonly<z.infer<typeof shownFlow>>;

/** `user`: what a person wrote, or the agent's author. `tool:<name>`: a result of this tool. `any`: it is not looked at. */
const argumentOrigin = z
  .string()
  .max(256)
  .regex(/^(user|any|tool:[^\s]{1,200})$/, 'must be `user`, `any` or `tool:<name>`');

const argumentRule = z
  .strictObject({
    /** Each value of the argument has to stand in one of these. `any` allows every value. */
    from: z.array(argumentOrigin).max(32).default([]),
    /**
     * Values that are allowed wherever they come from, compared without case; `*` stands for any characters, in the host of a link
     * for those of a host, and for no second `@`. Of several addresses in one text each has to match.
     */
    allow: z.array(z.string().min(1).max(256)).max(1_000).default([]),
  })
  .refine(({ from, allow }) => from.length + allow.length > 0, 'give `from`, `allow` or both');
export type ArgumentRule = Readonly<z.output<typeof argumentRule>>;

const toolFlow = z.strictObject({
  /** Does a call of it carry data out, or take effect? Default: yes unless its effect is `read`. */
  sink: z.boolean().optional(),
  /** By path of the argument (`to`, `message.to`); list places are left out. An argument with a rule is not checked otherwise. */
  arguments: z.record(z.string().min(1).max(256), argumentRule).default({}),
  /** `false`: no call of it once the run has read an untrusted text, whatever its arguments are. */
  afterUntrusted: z.boolean().default(true),
});
export type ToolFlow = Readonly<z.output<typeof toolFlow>>;

/** Where data may flow in the runs of an agent. */
export const dataFlowPolicy = z.strictObject({
  mode: flowMode,
  /** Stops every sink once the run has seen untrusted text and secret data. */
  guardTrifecta: z.boolean().default(true),
  /** Tools whose calls run whatever is found. Each such call is in the audit stream. */
  declassifySinks: z.array(z.string().min(1).max(256)).max(128).default([]),
  /** How many letters and digits of an untrusted text in a row count as a passage of it. */
  minSpanChars: z.int().min(8).max(1_000).default(20),
  /** Follows single values, however short: account numbers, addresses, links. */
  trackValues: z.boolean().default(true),
  /** By name of the tool, those of servers as `mcp:<server>/<tool>`. */
  tools: z.record(z.string().min(1).max(256), toolFlow).default({}),
});
export type DataFlowPolicy = Readonly<z.output<typeof dataFlowPolicy>>;

/** The policy as it holds where an operator asks for at least this mode: the stricter mode of the two. Undefined: it is off. */
export function effectiveFlow(own: DataFlowPolicy | undefined, floor: FlowMode): DataFlowPolicy | undefined {
  const modes = flowMode.options;
  const mode = modes[Math.max(modes.indexOf(floor), modes.indexOf(own?.mode ?? 'off'))] ?? floor;
  if (mode === 'off') return undefined;
  return own ? { ...own, mode } : dataFlowPolicy.parse({ mode });
}

/** What has been decided about a call with findings. `asked`: a person decides. */
export const flowDecision = z.enum(['flagged', 'asked', 'blocked', 'declassified']);
export type FlowDecision = z.infer<typeof flowDecision>;

/** The body of the events `dataflow.*`, and of the entries of the audit stream. */
export const flowEvent = {
  toolCallId: z.string(),
  toolName: z.string(),
  /** The first finding's. */
  rule: flowRule,
  mode: flowMode,
  findings: z.array(flowFinding).max(maxFlowFindings),
  parentToolCallId: z.string().optional(),
  /** Of a person's decision. */
  by: z.string().optional(),
};
