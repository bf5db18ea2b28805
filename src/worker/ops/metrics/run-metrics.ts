import type { EventBody } from '../../../shared/contract/event.ts';
import { type Labels, runSeconds, type Series } from './series.ts';

const runStatuses = ['completed', 'degraded', 'blocked', 'failed', 'cancelled'] as const;
const archiveOutcomes = ['written', 'skipped', 'gone', 'failed'] as const;
const accountScopes = ['run', 'batch', 'tenant'] as const;

export interface ObservedRun {
  readonly agentId: string;
  readonly kind: string;
  readonly queueWaitMs?: number | undefined;
}

export function runMetrics(series: Series, labels: Labels) {
  const count = runSeries(series);
  const beginAtZero = (agent: string, kind: string) => {
    for (const status of runStatuses) count.ended.inc({ agent, kind, status }, 0);
  };
  const end = (about: { agent: string; kind: string; status: string }, durationMs: number | undefined) => {
    count.ended.inc(about);
    const { agent, status } = about;
    // A run that never began has no duration.
    if (durationMs !== undefined) count.seconds.observe({ agent, status }, durationMs / 1_000);
  };
  for (const agent of labels.known.agents) beginAtZero(agent, 'agent.turn');
  for (const outcome of archiveOutcomes) count.archived.inc({ outcome }, 0);
  for (const scope of accountScopes) count.paused.inc({ scope }, 0);
  return {
    observe(event: EventBody, { agentId, kind, queueWaitMs }: ObservedRun): void {
      const agent = labels.agent(agentId);
      switch (event.type) {
        case 'run.started':
          beginAtZero(agent, kind);
          if (event.resumed) count.resumed.inc({ agent });
          if (queueWaitMs !== undefined) count.queueWait.observe({ agent }, queueWaitMs / 1_000);
          return;
        case 'run.completed':
          return end({ agent, kind, status: event.status }, event.durationMs);
        case 'run.failed':
          count.errors.inc({ agent, code: event.error.code });
          return end({ agent, kind, status: 'failed' }, event.durationMs);
        case 'run.cancelled':
          return end({ agent, kind, status: 'cancelled' }, event.durationMs);
        case 'run.suspended':
          return count.suspended.inc({ agent, reason: event.reason });
        case 'run.recovered':
          return count.recovered.inc({ agent });
        case 'agent.loop.detected':
          return count.loops.inc({ agent, pattern: event.pattern, action: event.action });
        case 'budget.paused':
          return count.paused.inc({ scope: event.scope });
        case 'budget.warning':
          return count.warned.inc({ agent });
        default:
      }
    },
    archived(outcome: { readonly kind: string; readonly bytes?: number }) {
      count.archived.inc({ outcome: outcome.kind });
      count.archivedBytes.inc(outcome.bytes ?? 0);
    },
    threadLocks: (change: 1 | -1) => count.locks.inc(change),
    compacted: (agent: string, outcome: string) => count.compactions.inc({ agent: labels.agent(agent), outcome }),
  };
}

function runSeries({ counter, gauge, histogram }: Series) {
  return {
    ended: counter('millrace_runs_total', 'Runs that ended.', 'agent', 'kind', 'status'),
    errors: counter('millrace_run_errors_total', 'Runs that failed, by the code of their error.', 'agent', 'code'),
    seconds: histogram(
      'millrace_run_duration_seconds',
      'From the start of a run to its end.',
      runSeconds,
      'agent',
      'status',
    ),
    queueWait: histogram(
      'millrace_run_queue_wait_seconds',
      'From acceptance, or the end of its delay, to the start of a run.',
      runSeconds,
      'agent',
    ),
    recovered: counter('millrace_runs_recovered_total', 'Runs continued after their worker was lost or left.', 'agent'),
    suspended: counter('millrace_runs_suspended_total', 'Runs that began to wait without a worker.', 'agent', 'reason'),
    loops: counter(
      'millrace_loop_guard_total',
      'Runs that went in circles, by the rung of the ladder that was taken.',
      'agent',
      'pattern',
      'action',
    ),
    locks: gauge('millrace_thread_locks', 'Threads whose lock a run in this worker has.'),
    resumed: counter('millrace_runs_resumed_total', 'Runs that went on after such a wait.', 'agent'),
    archived: counter('millrace_archived_runs_total', 'Ended runs that the archive was asked to keep.', 'outcome'),
    archivedBytes: counter('millrace_archived_bytes_total', 'Bytes that they take there, compressed.'),
    paused: counter('millrace_budget_paused_total', 'Waits for money, by the account that lacks it.', 'scope'),
    warned: counter('millrace_budget_warnings_total', 'Runs that passed a cap that only warns.', 'agent'),
    compactions: counter(
      'millrace_compactions_total',
      'Times that a conversation was to be summarised, by what came of it.',
      'agent',
      'outcome',
    ),
  };
}
