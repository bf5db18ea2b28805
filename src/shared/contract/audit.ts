import { z } from 'zod';
import { RunError } from '../base/errors.ts';
import { type EventBody, type EventEnvelope, type EventType } from './event.ts';
import { flowDecision, flowEvent, maxFlowFindings, type FlowFinding } from './flow.ts';
import { lateralLeakFinding } from './agent/lateral-leak.ts';
import { budgetOnExceed, budgetScope, microcents } from './money.ts';

export const auditVersion = 1;

/** What every entry says that was written with an event. */
const entryHead = {
  v: z.literal(auditVersion),
  /** Of the event that it was written with, in the log of the run. */
  sequenceNumber: z.int().min(1),
  at: z.string(),
  tenant: z.string(),
  runId: z.string(),
  agent: z.string().optional(),
};

/** What the data-flow policy found about a call, and what became of it. Names only: no value of an argument. */
export const flowAudit = z.object({
  ...entryHead,
  kind: z.literal('flow'),
  decision: flowDecision,
  ...flowEvent,
});
export type FlowAudit = Readonly<z.infer<typeof flowAudit>>;

/** What the guards between agents found in what one handed to another. */
export const leakAudit = z.object({ ...entryHead, kind: z.literal('leak'), ...lateralLeakFinding });

/** A rule denied a call, a model call, or an agent. The words of the rule are in the event only. */
export const denialAudit = z.object({
  ...entryHead,
  kind: z.literal('denial'),
  subject: z.string(),
  ruleId: z.string().optional(),
  toolCallId: z.string().optional(),
  toolName: z.string().optional(),
  subagentName: z.string().optional(),
});

/** What every entry says about what someone has done. */
const deedHead = {
  v: z.literal(auditVersion),
  at: z.string(),
  tenant: z.string(),
  by: z
    .string()
    .optional()
    .describe(
      'Who: `key:` and the first digits of the SHA-256 of the API key, or the name that was given with it. Absent: a process with a connection to Redis.',
    ),
};

/** What a person decided about a call, a question, or the money of a run. Neither arguments nor reasons. */
export const decisionAudit = z.object({
  ...deedHead,
  kind: z.literal('decision'),
  runId: z.string(),
  agent: z.string().optional(),
  verdict: z.enum(['granted', 'denied', 'answered', 'approved', 'rejected']),
  toolCallId: z.string().optional().describe('Absent: it is about the money of the run.'),
  toolName: z.string().optional(),
  edited: z.literal(true).optional().describe('With other arguments.'),
});

/** Someone set what may be spent, or added to it. */
export const budgetAudit = z.object({
  ...deedHead,
  kind: z.literal('budget'),
  change: z.enum(['set', 'top_up']),
  scope: budgetScope,
  accountId: z.string(),
  microcents: microcents.describe('The new cap, or what was added.'),
  onExceed: budgetOnExceed.optional(),
});

/** Data was erased. The values of metadata that runs were chosen by are not kept, nor is the receipt. */
export const erasureAudit = z.object({
  ...deedHead,
  kind: z.literal('erasure'),
  receiptId: z.string(),
  receiptSha256: z.string().describe('Of the signed text of the receipt.'),
  of: z.enum(['run', 'runs', 'thread']),
  runs: z.int().min(0),
  threads: z.int().min(0),
});

/** A producer was started with another set of API keys, or made the key that receipts are signed with. */
export const keysAudit = z.object({
  ...deedHead,
  kind: z.literal('keys'),
  change: z.enum(['added', 'removed', 'changed', 'created']),
  key: z
    .string()
    .describe('`key:` and the first digits of the SHA-256 of an API key; `erasure:` and those of a public key.'),
  scopes: z.array(z.string()).optional(),
});

/** Someone paused a batch, or resumed it. */
export const pauseAudit = z.object({
  ...deedHead,
  kind: z.literal('pause'),
  change: z.enum(['paused', 'resumed']),
  batchId: z.string(),
});

/** An entry of the audit stream of a tenant. Another kind of fact is another variant; readers skip kinds they do not know. */
export const auditEntry = z.discriminatedUnion('kind', [
  flowAudit,
  leakAudit,
  denialAudit,
  decisionAudit,
  budgetAudit,
  erasureAudit,
  keysAudit,
  pauseAudit,
]);
export type AuditEntry = Readonly<z.infer<typeof auditEntry>>;
export const auditKind = z.enum(['flow', 'leak', 'denial', 'decision', 'budget', 'erasure', 'keys', 'pause']);

/** What someone did, before it is kept. */
export type Deed = Without<Exclude<AuditEntry, { readonly sequenceNumber: number }>, 'v' | 'tenant'>;

/** How long entries are kept, and about how many of a tenant: the oldest go first. */
export const auditRetentionMs = 30 * 86_400_000;
export const maxAuditEntries = 50_000;

/** How an event is written into its run's log, as far as an audit needs it. */
type AuditedEvent = Pick<EventEnvelope, 'runId' | 'timestamp' | 'agentId'> & EventBody;

/** Does this event also go to the audit stream of its tenant, in the same write? */
export function isAudited(event: { readonly type: EventType; readonly action?: unknown }): boolean {
  return auditedTypes.has(event.type) || (event.type === 'policy.decision' && event.action === 'deny');
}

const auditedTypes: ReadonlySet<string> = new Set<EventType>([
  'dataflow.flagged',
  'dataflow.asked',
  'dataflow.blocked',
  'dataflow.declassified',
  'agent.lateral-leak.detected',
]);

type Without<E, Names extends string> = E extends unknown ? Omit<E, Names> : never;
/** An entry as processes write it with an event: its version and number are the store's to give, with those of the event. */
type NewEntry = Without<Extract<AuditEntry, { readonly sequenceNumber: number }>, 'v' | 'sequenceNumber'>;

/**
 * The entry for an event that is audited. Each field is named here, so nothing else of an event gets there.
 */
export function auditOf(event: AuditedEvent, tenant: string): NewEntry {
  const head = { at: event.timestamp, tenant, runId: event.runId, agent: event.agentId };
  switch (event.type) {
    case 'dataflow.flagged':
    case 'dataflow.asked':
    case 'dataflow.blocked':
    case 'dataflow.declassified': {
      const { toolCallId, toolName, rule, mode, parentToolCallId, by } = event;
      const call = { toolCallId, toolName, parentToolCallId, rule, mode, by };
      const findings = event.findings.slice(0, maxFlowFindings).map(withoutValue);
      return {
        kind: 'flow',
        ...head,
        decision: flowDecision.parse(event.type.slice('dataflow.'.length)),
        ...call,
        findings,
      };
    }
    case 'agent.lateral-leak.detected': {
      const { vector, severity, decision, contentSha256 } = event;
      return { kind: 'leak', ...head, vector, severity, decision, contentSha256 };
    }
    case 'policy.decision': {
      const { subject, ruleId, toolCallId, toolName, subagentName } = event;
      return { kind: 'denial', ...head, subject, ruleId, toolCallId, toolName, subagentName };
    }
    default:
      throw new RunError('internal', `events ${event.type} are not audited`);
  }
}

function withoutValue({ rule, argument, source }: FlowFinding): FlowFinding {
  return { rule, argument, source: source && { name: source.name, trust: source.trust } };
}
