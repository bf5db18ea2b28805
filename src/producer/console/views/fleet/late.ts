import type { FleetWorker } from '../../../../shared/contract/report/fleet.ts';

/** Two heartbeats are missing. */
const lateMs = 11_000;

export function isLate({ heartbeatAgeMs }: FleetWorker): boolean {
  return heartbeatAgeMs > lateMs;
}
