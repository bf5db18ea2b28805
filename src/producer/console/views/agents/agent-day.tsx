import type { AgentSeries } from '../../../../shared/contract/report/series.ts';
import { errorRate } from './agent-rows.ts';

/** The part of an agent’s runs that failed; the title has the numbers. */
export function ErrorRate({ day }: { day: AgentSeries | undefined }) {
  if (!day || day.ended === 0) return <span class="soft">–</span>;
  const title = `${day.failed} of ${day.ended} runs failed`;
  return (
    <span class={day.failed > 0 ? 'number tone-bad' : 'number'} title={title}>
      {day.failed > 0 && <span aria-hidden="true">✕ </span>}
      {errorRate(day)}
    </span>
  );
}
