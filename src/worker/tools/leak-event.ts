import type { EventBody } from '../../shared/contract/event.ts';
import type { LeakFinding } from '../../shared/contract/agent/lateral-leak.ts';

/** The event of a finding. It is emitted with the write that the text belongs to. */
export function leakEvent(finding: LeakFinding): EventBody {
  return { type: 'agent.lateral-leak.detected', ...finding };
}
