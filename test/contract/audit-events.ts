import type { OutgoingEvent } from '../../src/shared/state/script.ts';

export const foundAt = '2026-01-02T03:04:05.000Z';

/** What the data-flow policy found about a call. */
export function aFinding(runId: string, toolCallId: string, changes: Partial<FlowEvent> = {}): OutgoingEvent {
  const source = { name: 'web_fetch', trust: 'external' } as const;
  return {
    runId,
    timestamp: foundAt,
    agentId: 'support',
    type: 'dataflow.flagged',
    toolCallId,
    toolName: 'send_mail',
    rule: 'untrusted-value',
    mode: 'shadow',
    findings: [{ rule: 'untrusted-value', argument: 'to', source }],
    ...changes,
  };
}
type FlowEvent = Extract<OutgoingEvent, { type: 'dataflow.flagged' }>;

export function aLeak(runId: string): OutgoingEvent {
  const contentSha256 = 'ab'.repeat(32);
  const leak = { vector: 'child-answer', severity: 'high', decision: 'blocked', contentSha256 } as const;
  return { runId, timestamp: foundAt, agentId: 'support', type: 'agent.lateral-leak.detected', ...leak };
}
