/** How a run can end. */
const ended = ['completed', 'degraded', 'blocked', 'failed', 'cancelled'] as const;
export const runStatuses = ['queued', 'running', 'suspended', ...ended] as const;
export type RunStatus = (typeof runStatuses)[number];
const terminalStatuses: ReadonlySet<RunStatus> = new Set(ended);

export function isTerminalStatus(status: RunStatus): boolean {
  return terminalStatuses.has(status);
}

export const terminalEvents = ['run.completed', 'run.failed', 'run.cancelled'] as const;
export type TerminalEventType = (typeof terminalEvents)[number];
const terminalTypes: ReadonlySet<string> = new Set(terminalEvents);

/** Exactly one of these ends every run's log; nothing follows it. */
export function isTerminal(event: { type: string }): boolean {
  return terminalTypes.has(event.type);
}
