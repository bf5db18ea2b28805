import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import type { AgentSeries } from '../../../../shared/contract/report/series.ts';

/** What the agents of the tenant did in the last day. */
export const dayPath = '/v1/metrics/series?from=24h&step=3600';

export interface AgentRow extends AgentView {
  /** Undefined: no run of it has ended in that time. */
  readonly day: AgentSeries | undefined;
}

/** Agents with their day, those with most runs first. */
export function rowsOf(agents: readonly AgentView[], days: readonly AgentSeries[] = []): readonly AgentRow[] {
  const byId = new Map(days.map((day) => [day.agent, day]));
  const rows = agents.map((agent): AgentRow => ({ ...agent, day: byId.get(agent.id) }));
  return rows.sort((a, b) => (b.day?.ended ?? 0) - (a.day?.ended ?? 0) || a.id.localeCompare(b.id));
}

/** The part of the runs that failed, from 0 to 1; undefined: none has ended. */
export function failedShare({ ended, failed }: Pick<AgentSeries, 'ended' | 'failed'>): number | undefined {
  return ended === 0 ? undefined : failed / ended;
}

/** The same in words: `0 %`, `0.4 %`, `12 %`. */
export function errorRate(day: Pick<AgentSeries, 'ended' | 'failed'>): string {
  const percent = (failedShare(day) ?? 0) * 100;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}
