import type { Log } from '../../shared/base/log.ts';
import { announcedRuns, type AnnouncedAgent } from '../../shared/state/fleet/fleet.ts';
import type { Supervision } from '../../shared/state/run/supervision.ts';

const heartbeatMs = 5_000;
const announceMs = 60_000;

type Heartbeat = Parameters<Supervision['heartbeat']>[0];

export interface PresenceOptions {
  readonly supervision: Supervision;
  readonly log: Log;
  readonly lockDurationMs: number;
  readonly agents: readonly AnnouncedAgent[];
  readonly about: Omit<Heartbeat, 'active' | 'providers' | 'runs'>;
  readonly active: () => number;
  readonly runs: () => Heartbeat['runs'];
  readonly providers: () => Heartbeat['providers'];
}

/** Keeps a worker and its agents announced to the fleet until it is disposed of. */
export interface Presence extends AsyncDisposable {
  /** For a draining worker: its agents are no longer announced. */
  stopAnnouncing(): void;
}

/** Resolves once this worker is announced. Rejects when Redis cannot be reached. */
export async function announceWorker(options: PresenceOptions): Promise<Presence> {
  const { supervision, log, lockDurationMs, agents, about, active, runs, providers } = options;
  const { name } = about;
  const tried = (work: () => Promise<unknown>, message: string) => async (): Promise<void> => {
    await work().catch((err: unknown) => log.debug({ err }, message));
  };
  const beat = tried(
    () =>
      supervision.heartbeat({
        ...about,
        active: active(),
        providers: providers(),
        runs: runs().slice(0, announcedRuns),
      }),
    'heartbeat did not reach redis',
  );
  // A lock was renewed at most half its time ago when its worker dies: the pulse ends before the next worker claims the run.
  const pulse = tried(() => supervision.pulse(name, lockDurationMs * 0.4), 'pulse did not reach redis');
  const announce = tried(() => supervision.announceAgents(agents), 'agents were not announced');
  const farewell = tried(() => supervision.farewell(name), 'farewell did not reach redis');
  await supervision.announceAgents(agents);
  await beat();
  await pulse();
  const heartbeat = setInterval(() => void beat(), heartbeatMs);
  const pulsing = setInterval(() => void pulse(), lockDurationMs / 10);
  const announcing = setInterval(() => void announce(), announceMs);
  return {
    stopAnnouncing: () => clearInterval(announcing),
    async [Symbol.asyncDispose]() {
      for (const timer of [heartbeat, pulsing, announcing]) clearInterval(timer);
      await farewell();
    },
  };
}
