import { isPostrunQueue, maintenanceQueue, postrunQueueOf, quarantineQueue } from '../../../shared/contract/queues.ts';
import type { Diagnosis } from '../../client/diagnose.ts';
import { count, duration } from '../show/paint.ts';

/** One line of `doctor`. `warn` can wait, `fail` needs attention; `advice` is what to do. */
export interface Check {
  readonly name: string;
  readonly level: 'ok' | 'warn' | 'fail';
  readonly text: string;
  readonly advice?: string;
}

const minRedisMajor = 7;
const clockWarnMs = 500;
const clockFailMs = 5_000;
const slowRoundTripMs = 50;
const memoryWarnShare = 0.8;
const memoryFailShare = 0.95;
const queuedTooLongMs = 60_000;
const shownRuns = 3;

/** Judges the facts. Nothing here asks Redis or the clock. */
export function checkDiagnosis(diagnosis: Diagnosis): Check[] {
  return [
    version(diagnosis),
    eviction(diagnosis),
    persistence(diagnosis),
    memory(diagnosis),
    clock(diagnosis),
    ...queues(diagnosis),
    workers(diagnosis),
    stuck(diagnosis),
    quarantine(diagnosis),
    requeued(diagnosis),
    failedJobs(diagnosis),
    postRunJobs(diagnosis),
    breakers(diagnosis),
    limits(diagnosis),
    money(diagnosis),
    people(diagnosis),
    threads(diagnosis),
  ];
}

function version({ redis: { version: found, mode, roundTripMs } }: Diagnosis): Check {
  const text = `${found} ${mode}, answers in ${duration(roundTripMs)}`;
  if (Number.parseInt(found, 10) < minRedisMajor) {
    return {
      name: 'redis',
      level: 'fail',
      text,
      advice: `use Redis ${minRedisMajor}.0 or later, or Valkey 8 or later`,
    };
  }
  if (roundTripMs <= slowRoundTripMs) return { name: 'redis', level: 'ok', text };
  return { name: 'redis', level: 'warn', text, advice: 'put Redis near the workers: each step of a run waits for it' };
}

function eviction({ redis: { maxmemoryPolicy } }: Diagnosis): Check {
  const name = 'eviction';
  if (maxmemoryPolicy === 'noeviction') return { name, level: 'ok', text: 'noeviction' };
  if (maxmemoryPolicy === undefined) {
    return {
      name,
      level: 'warn',
      text: 'Redis does not show its policy',
      advice: 'make sure that maxmemory-policy is noeviction',
    };
  }
  return {
    name,
    level: 'fail',
    text: `${maxmemoryPolicy}: Redis may delete queued runs`,
    advice: 'CONFIG SET maxmemory-policy noeviction, and in the configuration file',
  };
}

function persistence({ redis: { aof, appendfsync }, durability }: Diagnosis): Check {
  const name = 'persistence';
  if (!aof) {
    return {
      name,
      level: 'fail',
      text: 'AOF is off: a restart of Redis loses accepted runs',
      advice: 'CONFIG SET appendonly yes, and in the configuration file',
    };
  }
  const text = `AOF${appendfsync ? `, appendfsync ${appendfsync}` : ''}; accepted runs survive ${survived[durability]}`;
  return { name, level: durability === 'none' ? 'warn' : 'ok', text };
}

const survived: Record<Diagnosis['durability'], string> = {
  none: 'nothing for certain',
  process: 'a killed Redis process; a lost host may cost the last second',
  host: 'a lost host',
  replica: 'the loss of the Redis server',
};

function memory({ redis: { usedMemoryBytes, maxMemoryBytes } }: Diagnosis): Check {
  const name = 'memory';
  const used = megabytes(usedMemoryBytes);
  if (maxMemoryBytes === 0) return { name, level: 'ok', text: `${used} used, no limit set` };
  const share = usedMemoryBytes / maxMemoryBytes;
  const text = `${used} of ${megabytes(maxMemoryBytes)} used (${Math.round(share * 100)} %)`;
  if (share < memoryWarnShare) return { name, level: 'ok', text };
  const level = share < memoryFailShare ? 'warn' : 'fail';
  return {
    name,
    level,
    text,
    advice: 'raise maxmemory, or lower RESULT_TTL_S and EVENT_LOG_TTL_S; a full Redis refuses runs',
  };
}

function clock({ redis: { clockOffsetMs } }: Diagnosis): Check {
  const offsetMs = Math.abs(clockOffsetMs);
  const text = `Redis is ${duration(offsetMs)} ${clockOffsetMs < 0 ? 'behind' : 'ahead of'} this machine`;
  if (offsetMs < clockWarnMs) return { name: 'clock', level: 'ok', text };
  const level = offsetMs < clockFailMs ? 'warn' : 'fail';
  return {
    name: 'clock',
    level,
    text,
    advice: 'synchronise the clocks (NTP): leases and delays are measured with both',
  };
}

function queues({ queues: depths, oldestQueuedMs, workers: alive }: Diagnosis): Check[] {
  return Object.entries(depths)
    .filter(([queue]) => queue !== quarantineQueue)
    .map(([queue, { waiting, active, delayed, workers: serving }]) => {
      const oldestMs = oldestQueuedMs[queue];
      const age = oldestMs === undefined ? '' : `, the oldest for ${duration(oldestMs)}`;
      const text = `${count(waiting)} waiting${age}, ${count(active)} active, ${count(delayed)} delayed`;
      const name = `queue ${queue}`;
      // Without any worker the line about workers shows it.
      const isMissed = waiting + delayed > 0 || (alive.length > 0 && !isPostrunQueue(queue));
      if (serving === 0 && isMissed && queue !== maintenanceQueue) {
        return {
          name,
          level: waiting + delayed > 0 ? 'fail' : 'warn',
          text,
          advice: `no worker serves it: WORKER_QUEUES=${servedWith(queue)} millrace worker`,
        } as const;
      }
      if (waiting > 0 && (oldestMs ?? 0) > queuedTooLongMs) {
        return { name, level: 'warn', text, advice: 'add workers, or raise WORKER_CONCURRENCY' } as const;
      }
      return { name, level: 'ok', text } as const;
    });
}

/** A worker that serves a queue of runs also serves the queue of their post-run jobs. */
function servedWith(queue: string): string {
  return isPostrunQueue(queue) ? queue.slice(0, -postrunQueueOf('').length) : queue;
}

function workers({ workers: alive, openRuns }: Diagnosis): Check {
  const name = 'workers';
  if (alive.length === 0) {
    const text = openRuns > 0 ? `none is alive, and ${count(openRuns)} runs are open` : 'none is alive';
    return { name, level: openRuns > 0 ? 'fail' : 'warn', text, advice: 'start one: millrace worker' };
  }
  const active = alive.reduce((sum, worker) => sum + worker.active, 0);
  const room = alive.reduce((sum, worker) => sum + worker.concurrency, 0);
  const versions = [...new Set(alive.map((worker) => worker.version))];
  const text = `${alive.length} alive, ${count(active)} of ${count(room)} slots busy, version ${versions.join(' and ')}`;
  return { name, level: 'ok', text };
}

function stuck({ stuckRuns }: Diagnosis): Check {
  const name = 'stuck runs';
  if (stuckRuns.length === 0) return { name, level: 'ok', text: 'nothing stuck' };
  const shown = stuckRuns
    .slice(0, shownRuns)
    .map(({ runId, status, ageMs }) => `${runId} (${status} for ${duration(ageMs)})`);
  const more = stuckRuns.length > shownRuns ? ` and ${stuckRuns.length - shownRuns} more` : '';
  return {
    name,
    level: 'fail',
    text: `${shown.join(', ')}${more}`,
    advice: 'a running worker requeues them within a minute; if not, report it',
  };
}

function quarantine({ quarantined, workers: alive }: Diagnosis): Check {
  const name = 'quarantine';
  if (quarantined === 0) return { name, level: 'ok', text: 'empty' };
  const text = `${count(quarantined)} runs that keep losing their workers`;
  if (alive.some((worker) => worker.queues.includes(quarantineQueue))) return { name, level: 'warn', text };
  return {
    name,
    level: 'warn',
    text: `${text}, and no worker for them`,
    advice: 'WORKER_QUEUES=quarantine WORKER_CONCURRENCY=1 millrace worker',
  };
}

function requeued({ counters }: Diagnosis): Check {
  const name = 'requeued';
  const times = counters['requeued'] ?? 0;
  if (times === 0) return { name, level: 'ok', text: 'the reconciler has found no lost run' };
  const text = `the reconciler has requeued ${count(times)} runs whose job was gone`;
  if (!isRecent(counters['requeued_at'])) return { name, level: 'ok', text: `${text}, ${notLately}` };
  return { name, level: 'warn', text, advice: 'was Redis restarted without AOF, or were jobs deleted by hand?' };
}

function failedJobs({ queues: depths }: Diagnosis): Check {
  const name = 'failed jobs';
  const failed = Object.values(depths).reduce((sum, depth) => sum + depth.failed, 0);
  if (failed === 0) return { name, level: 'ok', text: 'none' };
  return {
    name,
    level: 'warn',
    text: count(failed),
    advice: 'millrace runs --status failed shows why; millrace redrive queues them again',
  };
}

function postRunJobs({ counters }: Diagnosis): Check {
  const name = 'post-run jobs';
  const failed = counters['postrun_jobs_failed'] ?? 0;
  if (failed === 0) return { name, level: 'ok', text: 'every title and embedding was made' };
  const text = `${count(failed)} titles and embeddings could not be made`;
  if (!isRecent(counters['postrun_jobs_failed_at'])) return { name, level: 'ok', text: `${text}, ${notLately}` };
  const advice = 'millrace threads events THREAD shows why; look at the model for titles, and at the embedder';
  return { name, level: 'warn', text, advice };
}

/** Counters never go back: only a recent failure is a warning. */
const recentMs = 24 * 3_600_000;
const notLately = 'the last one more than a day ago';

function isRecent(atMs = 0): boolean {
  return Date.now() - atMs < recentMs;
}

function megabytes(bytes: number): string {
  return `${count(Math.round(bytes / 1024 / 1024))} MB`;
}

function breakers({ waits }: Diagnosis): Check {
  const name = 'breakers';
  const open = waits.breakers.filter(({ openForMs = 0 }) => openForMs > 0);
  const unsure = waits.breakers.filter(({ openForMs }) => openForMs === 0);
  if (open.length === 0 && unsure.length === 0) {
    return { name, level: 'ok', text: 'no model and no tool is left alone because it failed' };
  }
  if (open.length === 0) {
    const text = `${listed(unsure.map(({ target }) => target))} failed, and no worker has probed it since`;
    return { name, level: 'warn', text, advice: 'the next call finds out' };
  }
  const list = open.map(({ target, openForMs = 0 }) => `${target} (next try in ${duration(openForMs)})`);
  return {
    name,
    level: 'fail',
    text: `no worker calls ${listed(list)}`,
    advice:
      'look at the provider, or at what the tool (`tool:…`) talks to; runs without another model fail until it answers, redrive them afterwards',
  };
}

function limits({ waits: { limiters } }: Diagnosis): Check {
  const name = 'provider limits';
  if (limiters.length === 0) return { name, level: 'ok', text: 'no run waits for its turn at a provider' };
  const list = limiters.map(({ model, waiting }) => `${count(waiting)} for ${model}`);
  return {
    name,
    level: 'warn',
    text: `runs waiting for their turn: ${listed(list)}`,
    advice: 'they come back in order; more capacity at the provider, or a fallback model, makes it shorter',
  };
}

function money({ waits }: Diagnosis): Check {
  const name = 'budgets';
  if (waits.money.length === 0) return { name, level: 'ok', text: 'no run waits for money' };
  const list = waits.money.map(({ tenant, account, waiting }) => `${count(waiting)} of ${tenant} for ${account}`);
  return {
    name,
    level: 'warn',
    text: `runs waiting for money: ${listed(list)}`,
    advice: 'millrace budget top-up SCOPE ID USD, or millrace approve RUN for one step',
  };
}

function people({ waits }: Diagnosis): Check {
  const name = 'approvals';
  if (waits.people.length === 0) return { name, level: 'ok', text: 'no run waits for people' };
  const list = waits.people.map(
    ({ tenant, waiting, oldestMs }) => `${count(waiting)} of ${tenant}, the oldest for ${duration(oldestMs)}`,
  );
  return {
    name,
    level: 'ok',
    text: `runs waiting for people: ${listed(list)}`,
    advice: 'millrace approvals lists them',
  };
}

function threads({ waits }: Diagnosis): Check {
  const name = 'threads';
  if (waits.threads.length === 0) return { name, level: 'ok', text: 'no message waits for its turn' };
  const list = waits.threads.map(
    ({ threadId, lockOwner, waiting, suspended }) =>
      `${count(waiting)} behind run ${lockOwner} of ${threadId}${suspended ? ', which waits itself' : ''}`,
  );
  return {
    name,
    level: 'ok',
    text: `messages waiting for their turn: ${listed(list)}`,
    advice: 'millrace get RUN says what it waits for; millrace cancel RUN lets the next one go on',
  };
}

function listed(names: readonly string[]): string {
  const more = names.length - shownRuns;
  return more > 0 ? `${names.slice(0, shownRuns).join(', ')} and ${more} more` : names.join(', ');
}
