import { z } from 'zod';
import { RunError } from '../base/errors.ts';
import { type EventBody, type EventEnvelope, type EventType } from './event.ts';
import { flowDecision, flowEvent, maxFlowFindings, type FlowFinding } from './flow.ts';
import { lateralLeakFinding } from './agent/lateral-leak.ts';

export const auditVersion = 1;

/** What every entry of an audit stream says, whatever it is about. */
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

/** An entry of the audit stream of a tenant. Another kind of fact is another variant; readers skip kinds they do not know. */
export const auditEntry = z.discriminatedUnion('kind', [flowAudit, leakAudit]);
export type AuditEntry = Readonly<z.infer<typeof auditEntry>>;

/** How long entries are kept, and about how many of a tenant: the oldest go first. */
export const auditRetentionMs = 30 * 86_400_000;
export const maxAuditEntries = 50_000;

/** How an event is written into its run's log, as far as an audit needs it. */
type AuditedEvent = Pick<EventEnvelope, 'runId' | 'timestamp' | 'agentId'> & EventBody;

/** The events that also go to the audit stream of their tenant, in the same write. */
export function isAudited(type: string): boolean {
  return auditedTypes.has(type);
}

const auditedTypes: ReadonlySet<string> = new Set<EventType>([
  'dataflow.flagged',
  'dataflow.asked',
  'dataflow.blocked',
  'dataflow.declassified',
  'agent.lateral-leak.detected',
]);

/** An entry as processes write it: its version and number are the store's to give, with those of the event. */
type NewEntry<E> = E extends unknown ? Omit<E, 'v' | 'sequenceNumber'> : never;

/**
 * The entry for an event that is audited. Each field is named here, so nothing else of an event gets there.
 */
export function auditOf(event: AuditedEvent, tenant: string): NewEntry<AuditEntry> {
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
    default:
      throw new RunError('internal', `events ${event.type} are not audited`);
  }
}

function withoutValue({ rule, argument, source }: FlowFinding): FlowFinding {
  return { rule, argument, source: source && { name: source.name, trust: source.trust } };
}
