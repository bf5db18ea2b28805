import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { RunExport } from '../../../../shared/contract/archive/run-export.ts';
import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import type { RunEvent } from '../../../../shared/contract/event.ts';
import { isTerminalStatus } from '../../../../shared/contract/plain/ends.ts';
import type { RunView } from '../../../../shared/contract/run.ts';
import type { ApiError } from '../../api.ts';
import { useEvents, type Following } from '../../follow.ts';
import { useQuery } from '../../query.ts';
import { noEvents, withEvents, type EventList } from './record/event-list.ts';
import { noText, withEvent, type LiveText } from './record/live-text.ts';

/** While a run goes on it is read again at most this often, however many events come; a long one, which takes its time, less often. */
const rereadMs = 1_000;
const rereadShare = 5;
/** And so often without any event: one may have been missed. */
const openPollMs = 10_000;

/** Everything that the page of a run shows, as it is now. */
export interface RunState {
  readonly run: RunView | undefined;
  readonly steps: RunSteps | undefined;
  readonly log: EventList;
  readonly live: LiveText;
  readonly following: Following;
  readonly error: ApiError | undefined;
  readonly stepsError: ApiError | undefined;
  readonly reload: () => Promise<void>;
  /** After a redrive: its log goes on behind its end. */
  readonly followOn: () => void;
}

interface StreamState {
  readonly runId: string;
  readonly log: EventList;
  readonly live: LiveText;
}

const emptyStream = (runId: string): StreamState => ({ runId, log: noEvents, live: noText });

/** A run with its steps and its events, kept up to date for as long as it works. */
export function useRun(runId: string): RunState {
  const [isOpen, setOpen] = useState(true);
  const run = useQuery<RunView>(`/v1/runs/${encodeURIComponent(runId)}`, isOpen ? openPollMs : undefined);
  const steps = useQuery<RunSteps>(run.data && `/v1/runs/${encodeURIComponent(runId)}/steps`);
  const [stream, setStream] = useState<StreamState>(emptyStream(runId));
  const [after, setAfter] = useState(0);
  useEffect(() => {
    setStream(emptyStream(runId));
    setAfter(0);
    setOpen(true);
  }, [runId]);

  const status = run.data?.status;
  useEffect(() => {
    if (status) setOpen(!isTerminalStatus(status));
  }, [status]);

  const reload = useCallback(async () => {
    await Promise.all([run.reload(), steps.reload()]);
  }, []);
  const rereadSoon = useSoon(reload);
  const source = steps.data?.source;
  const following = useEvents(
    source === 'live' || steps.error ? runId : undefined,
    (events) => {
      setStream((before) => (before.runId === runId ? afterEvents(before, events) : before));
      if (events.some(({ type }) => concernsSteps(type))) rereadSoon();
    },
    after,
  );
  const kept = useQuery<Pick<RunExport, 'events'>>(
    source === 'archive' ? `/v1/runs/${encodeURIComponent(runId)}/export` : undefined,
  );
  const events = kept.data?.events;
  useEffect(() => {
    // The log of a run is gone some time after its end; the archive has it without deltas.
    if (events) setStream((before) => ({ ...before, log: withEvents(before.log, events as unknown as RunEvent[]) }));
  }, [events]);
  const lastSequence = stream.log.lastSequence;
  return {
    run: run.data,
    steps: steps.data,
    log: stream.log,
    live: stream.live,
    following,
    error: run.error,
    stepsError: steps.error,
    reload,
    followOn: useCallback(() => {
      setOpen(true);
      setAfter(lastSequence);
    }, [lastSequence]),
  };
}

function afterEvents({ runId, log, live }: StreamState, events: readonly RunEvent[]): StreamState {
  const fresh = events.filter(({ sequenceNumber }) => sequenceNumber > log.lastSequence);
  return { runId, log: withEvents(log, events), live: fresh.reduce(withEvent, live) };
}

/** Deltas come many times a second and change nothing that is kept. */
function concernsSteps(type: string): boolean {
  return !type.endsWith('.delta') && type !== 'tool.execute.progress' && type !== 'tool.execute.partial';
}

/** Calls the function a moment later, once for however many requests come in between. */
function useSoon(act: () => Promise<void>): () => void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const pauseMs = useRef(rereadMs);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    const reread = async () => {
      timer.current = undefined;
      const begun = performance.now();
      await act();
      pauseMs.current = Math.max(rereadMs, (performance.now() - begun) * rereadShare);
    };
    timer.current ??= setTimeout(() => void reread(), pauseMs.current);
  }, [act]);
}

/** The time, read again every second while `isTicking`. */
export function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = isTicking ? setInterval(() => setNow(Date.now()), 1_000) : undefined;
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}
