import type { RedisConnection } from './connect.ts';

/** Every key and channel: those of one run, thread, ledger, limiter or audit share a hash tag; the rest begin with `<prefix>:_:`. */
export const keysFor = (prefix: string) => ({
  ...runKeyNames(prefix),
  ...openRunKeyNames(prefix),
  ...fleetKeyNames(prefix),
  ...limitKeyNames(prefix),
  ...threadKeyNames(prefix),
  ...auditKeyNames(prefix),
  ...fileKeyNames(prefix),
  ...batchKeyNames(prefix),
  ...seriesKeyNames(prefix),
});
export type Keys = ReturnType<typeof keysFor>;

/** Where a store has its keys. */
export interface KeySpace {
  readonly redis: RedisConnection;
  readonly keys: Keys;
}

/** The same where each piece of work with Redis is on its own, with a deadline: as producers have it. */
export interface ReachedKeys {
  readonly keys: Keys;
  readonly reach: Reach;
}

/** Runs work that talks to Redis. Throws `queue_unavailable` for whatever goes wrong with Redis. */
export type Reach = <T>(work: (redis: RedisConnection) => Promise<T>) => Promise<T>;

/** The keys of one run share the hash tag `{runId}`. */
const runKeyNames = (prefix: string) => ({
  run: (runId: string) => `${prefix}:{${runId}}:run`,
  journal: (runId: string) => `${prefix}:{${runId}}:journal`,
  events: (runId: string) => `${prefix}:{${runId}}:events`,
  live: (runId: string) => `${prefix}:{${runId}}:live`,
  /** Stream of a run's lifecycle events and audit entries that are not in the streams of all runs yet; only in a Cluster. */
  unpublished: (runId: string) => `${prefix}:{${runId}}:unpublished`,
  /** Hash of the request that has taken the execution id of a run which is not created yet. */
  claim: (runId: string) => `${prefix}:{${runId}}:claim`,
  /** Hash of what people decided about the calls of a run, by the id of what was pending. */
  decisions: (runId: string) => `${prefix}:{${runId}}:decisions`,
  /** List of those decisions that the journal of the run does not have yet. */
  decided: (runId: string) => `${prefix}:{${runId}}:decided`,
  /** List of messages of the user to a running run that its journal does not have yet. */
  inbox: (runId: string) => `${prefix}:{${runId}}:inbox`,
  /** List of events of children that the log of a running parent does not have yet. */
  relayed: (runId: string) => `${prefix}:{${runId}}:relayed`,
  /** Hash of the children that begin as others end, and of what their suspended parent waits for. */
  later: (runId: string) => `${prefix}:{${runId}}:later`,
  /** Hash of a run's kept results: name to what is known about each, as JSON, and `#used`, their bytes together. */
  artifacts: (runId: string) => `${prefix}:{${runId}}:artifacts`,
  /** Hash of the parts of one kept result, numbered from 0. */
  artifactBody: (runId: string, id: string) => `${prefix}:{${runId}}:artifact:${id}`,
  /** Progress notes of a run: a hash of what is known about each by `<role>.<number>`, one of their texts, and one of numbers. */
  progress: (tenant: string, runId: string) => `${prefix}:{${runId}}:progress:${tenant}`,
  progressTexts: (tenant: string, runId: string) => `${prefix}:{${runId}}:progress-texts:${tenant}`,
  progressNumbers: (tenant: string, runId: string) => `${prefix}:{${runId}}:progress-numbers:${tenant}`,
});

/** Lists of runs, and channels about them. */
const openRunKeyNames = (prefix: string) => ({
  /** All runs' events without text deltas, as messages like those of `live`. */
  firehose: `${prefix}:firehose`,
  /** Stream of lifecycle events for consumer groups; field `e` as in a run's log. */
  lifecycle: `${prefix}:lifecycle`,
  /** Sorted set of open runs by the time at which the reconciler checks each. */
  checks: `${prefix}:_:checks`,
  /** Sorted set of runs that have not ended, by the time at which they were listed. */
  open: `${prefix}:_:open`,
  /** The execution id that a request with this digest got, for repeats that do not name it. */
  repeat: (tenant: string, digest: string) => `${prefix}:_:repeat:${tenant}:${digest}`,
  /** Set of a tenant's runs that have not ended, to be counted. It may contain some that ended with their process. */
  openOf: (tenant: string) => `${prefix}:_:open:${tenant}`,
  /** Sorted set of a tenant's runs by creation time. */
  index: (tenant: string) => `${prefix}:_:index:${tenant}`,
  /** Set of runs whose running worker has been asked to cancel: what a worker polls when the channel is silent. */
  cancels: `${prefix}:_:cancels`,
  /** Channel for control messages to workers. */
  control: `${prefix}:control`,
  /** Sorted set of a tenant's runs that wait for people, by the time at which these were asked, and the set of tenants. */
  asking: (tenant: string) => `${prefix}:_:asking:${tenant}`,
  tenantsAsking: `${prefix}:_:tenants-asking`,
  /** Sorted set of suspended runs by the time at which the resume poller resumes them. */
  timers: `${prefix}:_:timers`,
  /** Sorted set of runs by their deadline, of those that have one and have not ended. */
  deadlines: `${prefix}:_:deadlines`,
});

/** Workers, what they serve, and what they keep together. */
const fleetKeyNames = (prefix: string) => ({
  /** Sorted set of live worker names by heartbeat time, and the hash of what each serves. */
  workers: `${prefix}:_:workers`,
  workerInfo: `${prefix}:_:worker-info`,
  /** Sorted set of run queues by the time at which a worker announced that it serves each. */
  queues: `${prefix}:_:queues`,
  /** There for as long as a worker process lives, and less than half a lock longer. */
  pulse: (worker: string) => `${prefix}:_:pulse:${worker}`,
  /** The run that a worker watches, for as long as its other runs may ask whether that one killed it. */
  watched: (worker: string) => `${prefix}:_:watched:${worker}`,
  /** Hash of loaded agents, written by workers: id to the public part of the definition. */
  agents: `${prefix}:_:agents`,
  /** Hash of what else is known of them: instructions, tools with their schemas, limits. */
  agentSheets: `${prefix}:_:agent-sheets`,
  /** The mark of the shared folder that workers keep results in, and who swept it last. */
  artifactRoot: `${prefix}:_:artifact-root`,
  artifactSweep: `${prefix}:_:artifact-sweep`,
  /** Sorted set of a tenant's MCP servers with pins by the time of their last use, and a hash of the pins of each. */
  pinnedServers: (tenant: string) => `${prefix}:{pins:${tenant}}:servers`,
  pins: (tenant: string, server: string) => `${prefix}:{pins:${tenant}}:of:${server}`,
  /** Bytes that a run produced, by their SHA-256. */
  media: (tenant: string, sha256: string) => `${prefix}:{media:${tenant}}:${sha256}`,
  /** What a process writes to learn whether writes go through: any, or in a Cluster the master that owns the tag. */
  writable: (tag: string) => (tag === '' ? `${prefix}:_:writable` : `${prefix}:{${tag}}:writable`),
  /** Sorted set of the sessions that an API key has opened in the console, by the hash of each id, by their end. */
  sessions: (keySha256: string) => `${prefix}:_:sessions:${keySha256}`,
  /** Counters that operators ask for across processes, for instance runs that the reconciler requeued. */
  counters: `${prefix}:_:counters`,
});

/** Money, limits and breakers. All accounts of a tenant share a hash tag, so one script reaches run, batch and tenant. */
const limitKeyNames = (prefix: string) => ({
  /** An account of the ledger. */
  account: (tenant: string, scope: string, id: string, window: string) =>
    `${prefix}:{ledger:${tenant}}:${scope}:${id}:${window}`,
  /** Sorted set of runs that wait for money of an account, oldest first. */
  accountWaiting: (tenant: string, scope: string, id: string) => `${prefix}:{ledger:${tenant}}:${scope}:${id}:waiting`,
  /** Hash of what each of those runs needs, in microcents. */
  accountNeeds: (tenant: string, scope: string, id: string) => `${prefix}:{ledger:${tenant}}:${scope}:${id}:needs`,
  /** Sorted set of runs that were notified of money and have not asked for it yet, by the time at which that lapses. */
  accountPromises: (tenant: string, scope: string, id: string) =>
    `${prefix}:{ledger:${tenant}}:${scope}:${id}:promises`,
  /** Set of accounts that runs wait for, as `scope:id`. */
  accountsWaiting: (tenant: string) => `${prefix}:{ledger:${tenant}}:accounts-waiting`,
  /** Sorted set of batches that a budget was set for, by the time when it was. */
  budgetsSet: (tenant: string) => `${prefix}:{ledger:${tenant}}:budgets-set`,
  /** Set of tenants with runs that wait for money. */
  tenantsWaiting: `${prefix}:_:tenants-waiting`,
  /** Cost counters of a tenant and day. */
  costs: (tenant: string, day: string) => `${prefix}:{ledger:${tenant}}:costs:${day}`,
  /** Sorted set of attempts that were counted in the last minutes, by time. */
  counted: (tenant: string) => `${prefix}:{ledger:${tenant}}:counted`,
  /** State of the limiter of one credential and model; `part` names the key within it. */
  limiter: (limiter: string, part: string) => `${prefix}:{limit:${limiter}}:${part}`,
  /** Set of limiters that runs wait for. */
  limiters: `${prefix}:_:limiters`,
  /** Sorted set of limiters by the time of their last use, give or take a minute. */
  limitersUsed: `${prefix}:_:limiters-used`,
  /** State of the circuit breaker of one provider and model, and the channel on which changes are published. */
  breaker: (target: string) => `${prefix}:{breaker:${target}}:state`,
  breakers: `${prefix}:_:breakers`,
  breakerChannel: `${prefix}:breakers`,
});

const threadKeyNames = (prefix: string) => ({
  /** What belongs to one thread; `part` names the key within it. It is kept until a caller deletes the thread. */
  thread: (tenant: string, threadId: string, part: ThreadPart) => `${prefix}:{thread:${tenant}:${threadId}}:${part}`,
  /** Hash of what a caller said of a thread before any run was in it. */
  conversation: (tenant: string, threadId: string) => `${prefix}:{thread:${tenant}:${threadId}}:conversation`,
  /** Sorted set of a tenant's threads by the time of their last change. */
  threads: (tenant: string) => `${prefix}:_:threads:${tenant}`,
  /** Sorted set of threads that a run has entered, as `tenant:thread`, by the time of the last entry. */
  threadsEntered: `${prefix}:_:threads-entered`,
  /** Sorted set of the same threads by the time at which the reconciler checks each. */
  threadChecks: `${prefix}:_:thread-checks`,
});

/** All of a tenant's share a hash tag. */
const auditKeyNames = (prefix: string) => ({
  /** Sorted set of tenants with entries, by the time of the last one. */
  audits: `${prefix}:_:audits`,
  /** Stream of what guards found in the runs of a tenant; a field `a` with each entry as JSON. Added to with the event itself. */
  audit: (tenant: string) => `${prefix}:{audit:${tenant}}:entries`,
  /** Hash of the API keys that producers were started with last: the first digits of each to its tenant and scopes. */
  apiKeys: `${prefix}:_:api-keys`,
  /** Set of entries that have come from a run already; only in a Cluster. */
  auditMoved: (tenant: string, runId: string) => `${prefix}:{audit:${tenant}}:moved:${runId}`,
});

/** What is known of a tenant's files shares a hash tag, and so do the bytes of each file that Redis keeps. */
const fileKeyNames = (prefix: string) => ({
  /** Hash of what is known of a file: what its tenant sees of it, and its parts. */
  file: (tenant: string, id: string) => `${prefix}:{files:${tenant}}:file:${id}`,
  /** Sorted set of a tenant's files by their id, all of them or those for one purpose. */
  files: (tenant: string, purpose = 'all') => `${prefix}:{files:${tenant}}:ids:${purpose}`,
  /** Sorted set of the same files by the time at which each ends, and the hash of their bytes, `#used` all together. */
  fileEnds: (tenant: string) => `${prefix}:{files:${tenant}}:ends`,
  fileBytes: (tenant: string) => `${prefix}:{files:${tenant}}:bytes`,
  /** Hash of the bytes of a file by the name of their part; only where `ARTIFACT_STORE` is Redis. */
  blobs: (owner: string) => `${prefix}:{blobs:${owner}}:parts`,
  /** Sorted set of what has bytes in the folder or the bucket of `ARTIFACT_STORE`, by the time at which they go. */
  blobEnds: `${prefix}:_:blob-ends`,
  /** Sorted set of ended runs that are not in the archive yet, by the time at which a worker writes each. */
  archiveDue: `${prefix}:_:archive-due`,
  /** Sorted set of archived runs whose bytes Redis keeps, by end and size, and the bytes of all of them. */
  archived: `${prefix}:{archive}:runs`,
  archivedBytes: `${prefix}:{archive}:bytes`,
  /** Hash of what erasures of a tenant have begun to remove, until their receipt is signed. */
  erasing: (tenant: string) => `${prefix}:_:erasing:${tenant}`,
  /** The answer of an erasure by the digest of its idempotency key, for an hour. */
  erasureAnswer: (tenant: string, key: string) => `${prefix}:_:erasure-answer:${tenant}:${key}`,
  /** There while a process works on the erasure of an idempotency key: a nonce of the process, and the digest of what is asked for. */
  erasureClaim: (tenant: string, key: string) => `${prefix}:_:erasure-claim:${tenant}:${key}`,
  /** Hash of the lines of a file that erasures overwrote, by their offset: their length, the keys that they had, and digests of ids that later lines have, too. */
  erasedLines: (id: string) => `${prefix}:_:erased-lines:${id}`,
  /** The seed of the key that receipts of erasures are signed with, where no setting has one. Kept for good. */
  erasureKey: `${prefix}:_:erasure-key`,
  /** There for a while once a run is erased: when that run was created, as ISO time. */
  erased: (runId: string) => `${prefix}:{${runId}}:erased`,
  /** There for as long as the tenant may ask for a run that it erased, to answer why there is nothing: when that was, in milliseconds. */
  wasErased: (tenant: string, runId: string) => `${prefix}:{${runId}}:erased:${tenant}`,
  /** There for as long as none of them is looked for again. */
  blobSweep: `${prefix}:_:blob-sweep`,
});

/** The keys of one batch share the hash tag `{batch:ID}`. They go with its files, some when it ends. */
const batchKeyNames = (prefix: string) => ({
  /** Hash of what is known of a batch. */
  batch: (id: string) => `${prefix}:{batch:${id}}:batch`,
  /** Bits of the lines that were begun, and of those that failed, by their place in the file. */
  batchBegun: (id: string) => `${prefix}:{batch:${id}}:begun`,
  batchFailed: (id: string) => `${prefix}:{batch:${id}}:failed`,
  /** Hash of the lines that are open, by their place: what is known of each, as JSON. */
  batchOpen: (id: string) => `${prefix}:{batch:${id}}:open`,
  /** Hash of what failed lines have cost, by their place: a redriven run counts only what it costs beyond that. */
  batchSpent: (id: string) => `${prefix}:{batch:${id}}:spent`,
  /** List of what each line of the sample brought, until there is a quote. */
  batchSample: (id: string) => `${prefix}:{batch:${id}}:sample`,
  /** List of lines of output, or of failed lines, that are in no part of a file yet, and the list of those parts. */
  batchLines: (id: string, of: BatchOutputs) => `${prefix}:{batch:${id}}:lines:${of}`,
  batchParts: (id: string, of: BatchOutputs) => `${prefix}:{batch:${id}}:parts:${of}`,
  /** Sorted set of a tenant's batches by creation time, and of those that have not ended; the latter also of all tenants. */
  batches: (tenant: string) => `${prefix}:_:batches:${tenant}`,
  batchesOpenOf: (tenant: string) => `${prefix}:_:batches-open:${tenant}`,
  batchesOpen: `${prefix}:_:batches-open`,
  /** The batch that a request made which came without a key: the same request again is answered with it. */
  batchAsked: (tenant: string, digest: string) => `${prefix}:_:batch-asked:${tenant}:${digest}`,
  /** Sorted set of processes that advance batches, by the time of their last sign of life. */
  batchProcesses: `${prefix}:_:batch-processes`,
  /** There while one of them has looked for batches without a job, not long ago. */
  batchSweep: `${prefix}:_:batch-sweep`,
});

/** All of a tenant's share a hash tag. They go when they are too old to be shown. */
const seriesKeyNames = (prefix: string) => ({
  /** Hash of what happened in a step of time that begins at this second. */
  series: (tenant: string, stepS: number, at: number) => `${prefix}:{series:${tenant}}:${stepS}:${at}`,
  /** The last entry of the lifecycle stream that is counted there, and, in a Cluster, a sorted set of the last events. */
  seriesMark: (tenant: string) => `${prefix}:{series:${tenant}}:mark`,
  seriesSeen: (tenant: string) => `${prefix}:{series:${tenant}}:seen`,
  /** The last entry that is counted for all tenants, and what is there while one process counts. */
  seriesCursor: `${prefix}:_:series-cursor`,
  seriesTurn: `${prefix}:_:series-turn`,
});

/** What a line of output belongs to: lines with an answer, and lines without one. */
export type BatchOutputs = 'output' | 'errors';

/**
 * The manifest (a hash, with the fields of the lock), the wait queue (a sorted set of runs), the log (a stream), the
 * runs that left not long ago (a sorted set), the numbers of entries that are kept once per name (a hash), the writes of the
 * lock owner by operation id (a hash), what happened after its runs (a stream), and the number of the last claim of each run in it
 * (a hash).
 */
export type ThreadPart = 'manifest' | 'waiters' | 'log' | 'left' | 'once' | 'ops' | 'events' | 'claims';

/** BullMQ's key prefix. In a Cluster its keys must share a slot, so the prefix itself becomes the hash tag. */
export function bullPrefix(prefix: string, cluster: boolean): string {
  return cluster ? `{${prefix}}` : prefix;
}
