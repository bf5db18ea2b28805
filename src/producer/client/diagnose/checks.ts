import { isPostrunQueue, maintenanceQueue, postrunQueueOf, quarantineQueue } from '../../../shared/contract/queues.ts';
import type { Diagnosis } from './diagnose.ts';
import { fail, ok, warn, type Check } from './check.ts';
import { checkProviders } from './provider-checks.ts';
import { count, countOf, duration } from '../../../shared/base/words.ts';

const minRedisMajor = 7;
const clockWarnMs = 500;
const clockFailMs = 5_000;
const slowRoundTripMs = 50;
const memoryWarnShare = 0.8;
const memoryFailShare = 0.95;
const queuedTooLongMs = 60_000;
const shownRuns = 3;

/** Facts, and what `doctor` says about them. */
export interface JudgedDiagnosis extends Diagnosis {
  readonly checks: readonly Check[];
}

export function judged<D extends Diagnosis>(diagnosis: D): D & JudgedDiagnosis {
  return { ...diagnosis, checks: checkDiagnosis(diagnosis) };
}

/** Judges the facts. Nothing here asks Redis. */
export function checkDiagnosis(diagnosis: Diagnosis): Check[] {
  return [
    version(diagnosis),
    eviction(diagnosis),
    persistence(diagnosis),
    memory(diagnosis),
    clock(diagnosis),
    ...queues(diagnosis),
    workers(diagnosis),
    ...checkProviders(diagnosis, Date.now()),
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
    batches(diagnosis),
    archive(diagnosis),
    ...flows(diagnosis),
  ];
}

function version({ redis: { version: found, mode, roundTripMs } }: Diagnosis): Check {
  const text = `${found} ${mode}, answers in ${duration(roundTripMs)}`;
  if (Number.parseInt(found, 10) < minRedisMajor)
    return fail('redis', text, `use Redis ${minRedisMajor}.0 or later, or Valkey 8 or later`);
  if (roundTripMs <= slowRoundTripMs) return ok('redis', text);
  return warn('redis', text, 'put Redis near the workers: each step of a run waits for it');
}

function eviction({ redis: { maxmemoryPolicy } }: Diagnosis): Check {
  if (maxmemoryPolicy === 'noeviction') return ok('eviction', 'noeviction');
  if (maxmemoryPolicy === undefined)
    return warn('eviction', 'Redis does not show its policy', 'make sure that maxmemory-policy is noeviction');
  const text = `${maxmemoryPolicy}: Redis may delete queued runs`;
  return fail('eviction', text, 'CONFIG SET maxmemory-policy noeviction, and in the configuration file');
}

function persistence({ redis: { aof, appendfsync }, durability }: Diagnosis): Check {
  if (!aof) {
    const advice = 'CONFIG SET appendonly yes, and in the configuration file';
    return fail('persistence', 'AOF is off: a restart of Redis loses accepted runs', advice);
  }
  const text = `AOF${appendfsync ? `, appendfsync ${appendfsync}` : ''}; accepted runs survive ${survived[durability]}`;
  return (durability === 'none' ? warn : ok)('persistence', text);
}

const survived: Record<Diagnosis['durability'], string> = {
  none: 'nothing for certain',
  process: 'a killed Redis process; a lost host may cost the last second',
  host: 'a lost host',
  replica: 'the loss of the Redis server',
};

function memory({ redis: { usedMemoryBytes, maxMemoryBytes } }: Diagnosis): Check {
  const used = megabytes(usedMemoryBytes);
  if (maxMemoryBytes === 0) return ok('memory', `${used} used, no limit set`);
  const share = usedMemoryBytes / maxMemoryBytes;
  const text = `${used} of ${megabytes(maxMemoryBytes)} used (${Math.round(share * 100)} %)`;
  if (share < memoryWarnShare) return ok('memory', text);
  const advice = 'raise maxmemory, or lower RESULT_TTL_S and EVENT_LOG_TTL_S; a full Redis refuses runs';
  return (share < memoryFailShare ? warn : fail)('memory', text, advice);
}

function clock({ redis: { clockOffsetMs } }: Diagnosis): Check {
  const offsetMs = Math.abs(clockOffsetMs);
  const text = `Redis is ${duration(offsetMs)} ${clockOffsetMs < 0 ? 'behind' : 'ahead of'} this machine`;
  if (offsetMs < clockWarnMs) return ok('clock', text);
  const advice = 'synchronise the clocks (NTP): leases and delays are measured with both';
  return (offsetMs < clockFailMs ? warn : fail)('clock', text, advice);
}

/** A line for each queue. */
export function queues({
  queues: depths,
  oldestQueuedMs,
  workers: alive,
}: Pick<Diagnosis, 'queues' | 'oldestQueuedMs' | 'workers'>): Check[] {
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
        const advice = `no worker serves it: WORKER_QUEUES=${servedWith(queue)} millrace worker`;
        return (waiting + delayed > 0 ? fail : warn)(name, text, advice);
      }
      const isSlow = waiting > 0 && (oldestMs ?? 0) > queuedTooLongMs;
      return isSlow ? warn(name, text, 'add workers, or raise WORKER_CONCURRENCY') : ok(name, text);
    });
}

/** A worker that serves a queue of runs also serves the queue of their post-run jobs. */
function servedWith(queue: string): string {
  return isPostrunQueue(queue) ? queue.slice(0, -postrunQueueOf('').length) : queue;
}

function workers({ workers: alive, openRuns }: Diagnosis): Check {
  if (alive.length === 0) {
    const text =
      openRuns > 0
        ? `none is alive, and ${countOf(openRuns, 'run')} ${openRuns === 1 ? 'is' : 'are'} open`
        : 'none is alive';
    return (openRuns > 0 ? fail : warn)('workers', text, 'start one: millrace worker');
  }
  const active = alive.reduce((sum, worker) => sum + worker.active, 0);
  const room = alive.reduce((sum, worker) => sum + worker.concurrency, 0);
  const versions = [...new Set(alive.map((worker) => worker.version))].join(' and ');
  return ok('workers', `${alive.length} alive, ${count(active)} of ${count(room)} slots busy, version ${versions}`);
}

function stuck({ stuckRuns }: Diagnosis): Check {
  if (stuckRuns.length === 0) return ok('stuck runs', 'nothing stuck');
  const shown = stuckRuns.map(({ runId, status, ageMs }) => `${runId} (${status} for ${duration(ageMs)})`);
  return fail('stuck runs', listed(shown), 'a running worker requeues them within a minute; if not, report it');
}

function quarantine({ quarantined, workers: alive }: Diagnosis): Check {
  if (quarantined === 0) return ok('quarantine', 'empty');
  const text =
    quarantined === 1
      ? '1 run that keeps losing its workers'
      : `${count(quarantined)} runs that keep losing their workers`;
  if (alive.some((worker) => worker.queues.includes(quarantineQueue))) return warn('quarantine', text);
  const advice = 'WORKER_QUEUES=quarantine WORKER_CONCURRENCY=1 millrace worker';
  return warn('quarantine', `${text}, and no worker serves it`, advice);
}

function requeued({ counters }: Diagnosis): Check {
  const times = counters['requeued'] ?? 0;
  if (times === 0) return ok('requeued', 'the reconciler has found no lost run');
  const text = `the reconciler has requeued ${countOf(times, 'run')} whose job was gone`;
  if (!isRecent(counters['requeued_at'])) return ok('requeued', `${text}, ${notLately}`);
  return warn('requeued', text, 'was Redis restarted without AOF, or were jobs deleted by hand?');
}

function failedJobs({ queues: depths }: Diagnosis): Check {
  const failed = Object.values(depths).reduce((sum, depth) => sum + depth.failed, 0);
  if (failed === 0) return ok('failed jobs', 'none');
  const advice = 'millrace runs --status failed shows why; millrace redrive queues them again';
  return warn('failed jobs', count(failed), advice);
}

function postRunJobs({ counters }: Diagnosis): Check {
  const failed = counters['postrun_jobs_failed'] ?? 0;
  if (failed === 0) return ok('post-run jobs', 'none failed');
  const text =
    failed === 1
      ? '1 title or embedding could not be made'
      : `${count(failed)} titles and embeddings could not be made`;
  if (!isRecent(counters['postrun_jobs_failed_at'])) return ok('post-run jobs', `${text}, ${notLately}`);
  const advice = 'millrace threads events THREAD shows why; look at the model for titles, and at the embedder';
  return warn('post-run jobs', text, advice);
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
  const open = waits.breakers.filter(({ openForMs = 0 }) => openForMs > 0);
  const unsure = waits.breakers.filter(({ openForMs }) => openForMs === 0);
  if (open.length > 0) {
    const list = open.map(({ target, openForMs = 0 }) => `${target} (next try in ${duration(openForMs)})`);
    const advice =
      'look at the provider, or at what the tool (`tool:…`) talks to; runs without another model fail until it answers, redrive them afterwards';
    return fail('breakers', `no worker calls ${listed(list)}`, advice);
  }
  if (unsure.length === 0) return ok('breakers', 'no model and no tool is left alone because it failed');
  const text = `${listed(unsure.map(({ target }) => target))} failed, and no worker has probed it since`;
  return warn('breakers', text, 'the next call finds out');
}

function limits({ waits: { limiters } }: Diagnosis): Check {
  if (limiters.length === 0) return ok('provider limits', 'no run waits for its turn at a provider');
  const list = limiters.map(({ model, waiting }) => `${count(waiting)} for ${model}`);
  const advice = 'they come back in order; more capacity at the provider, or a fallback model, makes it shorter';
  return warn('provider limits', `runs waiting for their turn: ${listed(list)}`, advice);
}

function money({ waits }: Diagnosis): Check {
  if (waits.money.length === 0) return ok('budgets', 'no run waits for money');
  const list = waits.money.map(({ tenant, account, waiting }) => `${count(waiting)} of ${tenant} for ${account}`);
  const advice = 'millrace budget top-up SCOPE ID USD, or millrace approve RUN for one step';
  return warn('budgets', `runs waiting for money: ${listed(list)}`, advice);
}

function people({ waits }: Diagnosis): Check {
  if (waits.people.length === 0) return ok('approvals', 'no run waits for people');
  const list = waits.people.map(
    ({ tenant, waiting, oldestMs }) => `${count(waiting)} of ${tenant}, the oldest for ${duration(oldestMs)}`,
  );
  return ok('approvals', `runs waiting for people: ${listed(list)}`, 'millrace approvals lists them');
}

function threads({ waits }: Diagnosis): Check {
  if (waits.threads.length === 0) return ok('threads', 'no message waits for its turn');
  const list = waits.threads.map(
    ({ threadId, lockOwner, waiting, suspended }) =>
      `${count(waiting)} behind run ${lockOwner} of ${threadId}${suspended ? ', which waits itself' : ''}`,
  );
  const advice = 'millrace get RUN says what it waits for; millrace cancel RUN lets the next one go on';
  return ok('threads', `messages waiting for their turn: ${listed(list)}`, advice);
}

function batches({ batches: { open, processes } }: Diagnosis): Check {
  if (open === 0) return ok('batches', 'none is open');
  const text = `${count(open)} open`;
  if (processes > 0)
    return ok(
      'batches',
      `${text}, ${processes === 1 ? '1 process advances' : `${count(processes)} processes advance`} them`,
    );
  return fail('batches', `${text}, and no process advances them`, 'start a producer: millrace producer');
}

/** Workers write a run within seconds of its end; after a day it is lost. */
const lateForArchiveMs = 300_000;
/** An archive in Redis makes room at its bound: from here on its oldest runs go. */
const fullShare = 0.95;

function archive({ archive: { kind, ttlS, waiting, oldestWaitingMs, inRedis } }: Diagnosis): Check {
  if (waiting > 0 && oldestWaitingMs > lateForArchiveMs) {
    const text = `${countOf(waiting, 'ended run')} ${waiting === 1 ? 'is' : 'are'} not in it yet, the oldest for ${duration(oldestWaitingMs)}`;
    const advice =
      'the log of a worker says why; after a day what such a run did is lost. Can workers write to ARTIFACT_STORE?';
    return fail('archive', text, advice);
  }
  if (ttlS === 0) return ok('archive', 'off: ARCHIVE_TTL_S is 0');
  if (!inRedis) return ok('archive', `ended runs are kept for ${duration(ttlS * 1_000)} in ${placeOf[kind]}`);
  const { runs, bytes, maxBytes, coversMs } = inRedis;
  const text = `${countOf(runs, 'ended run')} in Redis, ${megabytes(bytes)} of ${megabytes(maxBytes)}`;
  if (bytes < maxBytes * fullShare || coversMs >= ttlS * 1_000) return ok('archive', text);
  const advice = 'for more, let ARTIFACT_STORE name a folder or a bucket, or raise ARCHIVE_REDIS_MAX_BYTES';
  return warn('archive', `${text}: full, it covers ${duration(coversMs)} of ${duration(ttlS * 1_000)}`, advice);
}

const placeOf = { redis: 'Redis', folder: 'a folder', s3: 'a bucket' } as const;

/** A full audit that covers less than a week makes a report of the last week partial. */
const auditWeekMs = 7 * 86_400_000;

function flows({ flows: found }: Diagnosis): Check[] {
  const lately = found.filter(({ lastDay }) => lastDay > 0);
  const list = lately.map(
    ({ tenant, lastDay, blocked }) => `${count(lastDay)} of ${tenant}, ${count(blocked)} blocked`,
  );
  const listAll = `millrace flows --since 1d${tenantOption(lately)} lists them`;
  const full = found.filter(({ coversMs = auditWeekMs }) => coversMs < auditWeekMs);
  const covered = full.map(({ tenant, coversMs = 0 }) => `${tenant} covers ${duration(coversMs)}`);
  const advice = `millrace flows report --since 1d${tenantOption(full)} says which tool fills it; its policy may be too strict`;
  return [
    ...(list.length === 0 ? [] : [ok('flows', `found in the last day: ${listed(list)}`, listAll)]),
    ...(covered.length === 0 ? [] : [warn('audit', `there is no room for a week: that of ${listed(covered)}`, advice)]),
  ];
}

function tenantOption([first, second]: readonly { readonly tenant: string }[]): string {
  if (second !== undefined) return ' --tenant TENANT';
  return first === undefined || first.tenant === 'default' ? '' : ` --tenant ${first.tenant}`;
}

function listed(names: readonly string[]): string {
  const more = names.length - shownRuns;
  return more > 0 ? `${names.slice(0, shownRuns).join(', ')} and ${more} more` : names.join(', ');
}
