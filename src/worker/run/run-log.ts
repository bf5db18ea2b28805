import type { NewRun } from '../../shared/state/run/create-runs.ts';
import { assertNever } from '../../shared/base/errors.ts';
import type { Log } from '../../shared/base/log.ts';
import { endFactsOf, factsOf } from '../../shared/contract/run-record.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { Claim } from '../../shared/state/run/claim.ts';
import type { OpenRun } from './run-context.ts';
import { durationMs, type JobOutcome } from './outcome.ts';
import type { Clock } from '../../shared/base/clock.ts';
import type { TurnOutcome } from '../turn/turn.ts';

/** The log of a run on this worker: each line has the run, its tenant, its worker and its request. */
export function runLogOf(log: Log, record: RunRecord, worker: string): Log {
  return log.child({ ...factsOf(record), worker });
}

/** Logs that this worker created a run: a child, or a message that came too late for its run. */
export function logAccepted(log: Log, run: NewRun, worker: string): void {
  const { thread } = run.request;
  log.info({ ...factsOf(run), worker, status: 'queued', thread, attached: false }, 'run accepted');
}

/** Logs the end of a run that no worker had. */
export function logEnded(log: Log, ended: RunRecord, worker: string): void {
  log.info({ ...factsOf(ended), worker, ...endFactsOf(ended) }, 'run ended');
}

/** How a run begins, or goes on, on a worker. */
export type RunStart = 'first' | 'resumed' | 'redriven' | 'recovered';

export function logStarted(
  log: Log,
  { start, record, previousWorker }: Extract<Claim, { kind: 'claimed' }> & { readonly start: RunStart },
  queueWaitMs: number,
): void {
  const { epoch: attempt, crashes, blame } = record;
  switch (start) {
    case 'first':
      return log.info({ attempt, queueWaitMs }, 'run started');
    case 'resumed':
      return log.info({ attempt }, 'run resumed');
    case 'redriven':
      return log.info({ attempt }, 'run redriven');
    case 'recovered':
      return log.info({ attempt, previousWorker, crashes, blame }, 'run recovered');
    default:
      return assertNever(start);
  }
}

/** Logs the end of a segment: one line. */
export function logOutcome(
  { log, record, workedMs }: Pick<OpenRun, 'log' | 'record' | 'workedMs'>,
  ending: TurnOutcome,
  outcome: JobOutcome,
  clock: Clock,
): void {
  const { costMicrocents, step: steps } = ending.state;
  const facts = { durationMs: durationMs(record, clock), workedMs: workedMs(), costMicrocents, steps };
  switch (outcome.kind) {
    case 'ended':
      return log.info({ status: outcome.status, code: outcome.error?.code, ...facts }, 'run ended');
    case 'suspended':
      return log.info(
        { status: 'suspended', reason: ending.status === 'suspended' ? ending.wait.reason : 'child', ...facts },
        'run suspended',
      );
    case 'handed_over':
      return log.info(facts, 'run handed over');
    case 'skipped':
    case 'crashed_too_often':
      return undefined;
    default:
      return assertNever(outcome);
  }
}
