import type { FastifyRequest } from 'fastify';
import { orLate } from '../../../../shared/base/deadline.ts';
import { RunError } from '../../../../shared/base/errors.ts';
import { isTerminal, type RunEvent, type SuspendReason } from '../../../../shared/contract/event.ts';
import { isTerminalStatus, type RunView } from '../../../../shared/contract/run.ts';
import { Stop, stoppable } from '../../../client/stop-signal.ts';
import type { MillraceClient } from '../../../client/facade.ts';
import type { Services } from '../../app.ts';

/** How long an answer is waited for. */
export interface Wait {
  /** Aborts when the client is gone or this process drains. */
  readonly signal: AbortSignal;
  readonly isDraining: () => boolean;
  readonly limitMs: number;
}

/** The wait of one answer, which keeps its connection until the limit. */
export function waitOf(
  { signal }: { readonly signal: AbortSignal },
  { raw }: Pick<FastifyRequest, 'raw'>,
  { openAnswers, answerWaitMs: limitMs }: Pick<Services, 'openAnswers' | 'answerWaitMs'>,
): Wait {
  // Longer than the silence after which a connection is cut.
  raw.socket.setTimeout(limitMs + connectionMarginMs);
  return { signal, isDraining: () => openAnswers.draining, limitMs };
}

const connectionMarginMs = 10_000;

/**
 * The run once it has ended. Throws `run_suspended` as soon as it waits for a person or for money, `still_running` after the limit,
 * and `queue_unavailable` when this process drains: a repeat of the request finds the same run.
 */
export async function endOf(
  mill: MillraceClient,
  runId: string,
  { signal, isDraining, limitMs }: Wait,
): Promise<RunView> {
  const first = await mill.get(runId);
  if (isTerminalStatus(first.status)) return first;
  refuseSuspended(first);
  using stop = new Stop({ signals: [signal], afterMs: limitMs });
  for await (const event of mill.events(runId, { after: first.lastSequence, signal: stop.signal })) {
    if (event.type === 'run.suspended') refuseSuspended(await mill.get(runId));
    if (isTerminal(event)) break;
  }
  const run = await mill.get(runId);
  if (isTerminalStatus(run.status)) return run;
  throw isDraining() ? draining() : stillRunning(runId, limitMs);
}

/** What is done about a run that waits for a person or for money: its stream ends with an error, or goes on. */
export type OnSuspended = 'refuse' | 'wait';

/**
 * What the events of a run become, from the first one on, until its end. Throws as {@link endOf}; the limit is that of silence
 * between two events.
 */
export function projected<T>(
  mill: MillraceClient,
  runId: string,
  project: (event: RunEvent) => readonly T[],
  { signal, isDraining, limitMs, onSuspended }: Wait & { readonly onSuspended: OnSuspended },
): AsyncIterableIterator<T> {
  return stoppable([], async function* (stop) {
    const events = mill.events(runId, { signal: AbortSignal.any([stop, signal]), whole: true })[Symbol.asyncIterator]();
    try {
      for (;;) {
        const step = await orLate(limitMs, events.next(), () => {
          throw stillRunning(runId, limitMs);
        });
        if (step.done) break;
        yield* project(step.value);
        if (isTerminal(step.value)) return;
        if (step.value.type !== 'run.suspended' || onSuspended === 'wait') continue;
        const run = await mill.get(runId);
        if (run.lastSequence <= step.value.sequenceNumber) refuseSuspended(run);
      }
      // A client that is gone reads no error.
      if (isDraining()) throw draining();
    } finally {
      await events.return?.();
    }
  });
}

const waitsForOthers: ReadonlySet<SuspendReason> = new Set(['approval', 'user_input', 'budget', 'unknown_outcome']);

function refuseSuspended({ runId, status, pending, children = [] }: RunView): void {
  if (status !== 'suspended') return;
  const items = [...pending, ...children.flatMap((child) => child.pending)];
  const kinds = [...new Set(items.map(({ kind }) => kind).filter((kind) => waitsForOthers.has(kind)))];
  if (kinds.length === 0) return;
  throw new RunError(
    'run_suspended',
    `run ${runId} waits for ${kinds.join(' and ')}; decide about it with POST /v1/runs/${runId}/decisions and read the answer with GET /v1/responses/resp_${runId}`,
    { details: { runId, pending: kinds } },
  );
}

function stillRunning(runId: string, limitMs: number): RunError {
  const where = `GET /v1/responses/resp_${runId} has its state and, later, its answer`;
  return new RunError('still_running', `run ${runId} brought nothing for ${limitMs / 1_000} seconds; ${where}`, {
    details: { runId },
  });
}

function draining(): RunError {
  return new RunError('queue_unavailable', 'this producer is shutting down; try again');
}
