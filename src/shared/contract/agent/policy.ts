import { z } from 'zod';

/** What a rule can be about. */
export const policySubject = z.enum(['tool_call', 'llm_call', 'subagent', 'interaction']);
export type PolicySubject = z.infer<typeof policySubject>;

/**
 * - allow: it happens, with `updatedToolArgs` over the model's arguments where the rule has them
 * - deny: it does not happen
 * - defer: it waits until a person or system outside grants it, denies it, or gives its result
 * - request_approval: it waits until a person grants or denies it
 * - request_user_input: the rule's reason is asked as a question, and the answer becomes the call's result
 */
export const policyAction = z.enum(['allow', 'deny', 'defer', 'request_approval', 'request_user_input']);
export type PolicyAction = z.infer<typeof policyAction>;

const fields = z.record(z.string(), z.unknown());

/** Every part that is there has to match. */
export const policyCondition = z.strictObject({
  /** The event's name, for instance `tool.execute.start`. */
  eventType: z.string().min(1).optional(),
  toolName: z.string().min(1).optional(),
  /** Glob over the tool's or sub-agent's name: `*` any characters, `?` one. */
  pattern: z.string().min(1).max(200).optional(),
  subagentName: z.string().min(1).optional(),
  /** Fields of the call's arguments, or of the context, that have to be equal to these. */
  contextEquals: fields.optional(),
  /** Arguments that have to be there. */
  hasKeys: z.array(z.string().min(1)).max(64).optional(),
  /** Metadata of the run. */
  metadataEquals: z.record(z.string(), z.string()).optional(),
});
export type PolicyCondition = z.infer<typeof policyCondition>;

const rewrites: ReadonlySet<PolicyAction> = new Set(['allow', 'defer', 'request_approval']);

const ruleFields = z.strictObject({
  ruleId: z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/, 'must be 1 to 128 of A-Z a-z 0-9 . _ : -'),
  action: policyAction,
  /** The highest comes first; among equals the first by id. */
  priority: z.int().min(0).max(1_000_000).default(100),
  enabled: z.boolean().default(true),
  subjects: z.array(policySubject).min(1).default(['tool_call']),
  condition: policyCondition.default({}),
  updatedToolArgs: fields.optional(),
  reason: z.string().max(500).optional(),
});

export const policyRule = ruleFields.refine(({ action, updatedToolArgs }) => !updatedToolArgs || rewrites.has(action), {
  path: ['updatedToolArgs'],
  error: 'has no meaning where the call is not made: give it with allow, defer or request_approval',
});
export type PolicyRule = z.output<typeof policyRule>;
