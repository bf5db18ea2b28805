import { hostname } from 'node:os';
import { orLate } from '../base/deadline.ts';
import { slotOwners, whenReady, type RedisConnection } from './connect.ts';
import type { Keys } from './keys.ts';
import { rightsProblem } from './errors.ts';

/** Why Redis takes no writes now, and what to do about it. `refuses`: it answers, with an error. */
export interface WriteProblem {
  readonly redis: 'refuses' | 'away';
  readonly reason: string;
}

const maxAgeMs = 1_000;
/** Less than the 800 ms of a readiness check, so that its answer has the reason. */
const deadlineMs = 600;
/** A write without an answer is tried again after this. */
const lostMs = 10_000;
/** The key goes soon after the last process of the fleet. */
const keyTtlMs = 10_000;
/** Far more than it takes to meet each of a Cluster's slot ranges. */
const maxTags = 100_000;

/**
 * Does Redis take writes? One small write to the server, in a Cluster one to each master. Probes within one second share
 * their writes, and a slow node gets no second write before it has answered the first.
 */
export class WriteProbe {
  readonly #redis: RedisConnection;
  readonly #keys: Keys;
  #last: { readonly askedAt: number; readonly answer: Promise<WriteProblem | undefined> } | undefined;
  readonly #unanswered = new Map<string, { readonly sentAt: number; readonly outcome: Promise<Error | undefined> }>();

  constructor(redis: RedisConnection, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Undefined: every write goes through. Never rejects, and answers within 600 ms. */
  async look(): Promise<WriteProblem | undefined> {
    const now = performance.now();
    if (!this.#last || now - this.#last.askedAt > maxAgeMs) this.#last = { askedAt: now, answer: this.#ask() };
    return await this.#last.answer;
  }

  async #ask(): Promise<WriteProblem | undefined> {
    const until = performance.now() + deadlineMs;
    if (await whenReady(this.#redis, deadlineMs).catch((error: unknown) => error)) return away;
    const owners = slotOwners(this.#redis);
    const tags = owners ? tagsOf(owners) : [''];
    const leftMs = until - performance.now();
    return problemOf(await Promise.all(tags.map((tag) => orLate(leftMs, this.#write(tag), () => unanswered))));
  }

  #write(tag: string): Promise<Error | undefined> {
    const now = performance.now();
    const before = this.#unanswered.get(tag);
    if (before && now - before.sentAt < lostMs) return before.outcome;
    const written = this.#redis.set(this.#keys.writable(tag), `${hostname()}:${process.pid}`, 'PX', keyTtlMs);
    const sent = {
      sentAt: now,
      outcome: written.then(
        () => undefined,
        (error: unknown) => (error instanceof Error ? error : new Error('the write failed', { cause: error })),
      ),
    };
    this.#unanswered.set(tag, sent);
    void sent.outcome.then(() => this.#unanswered.get(tag) === sent && this.#unanswered.delete(tag));
    return sent.outcome;
  }
}

const unanswered = new Error('no answer');
const away: WriteProblem = {
  redis: 'away',
  reason: 'Redis does not answer: look whether it runs and whether REDIS_URL leads to it',
};

function problemOf(outcomes: readonly (Error | undefined)[]): WriteProblem | undefined {
  const failures = outcomes.filter((outcome) => outcome !== undefined);
  // An answer is a better reason than none.
  const failure = failures.find((error) => remedyOf(error) !== undefined) ?? failures[0];
  if (!failure) return undefined;
  const remedy = remedyOf(failure);
  if (outcomes.length === 1) return remedy === undefined ? away : { redis: 'refuses', reason: remedy };
  const which = `${failures.length} of the ${outcomes.length} masters of the Cluster`;
  if (remedy !== undefined) return { redis: 'refuses', reason: `${which}: ${remedy}` };
  return { redis: 'away', reason: `${which} do not answer: start them again or fail over to their replicas` };
}

/** What to do, by the first word of what Redis answers to a write that it refuses. */
const remedies: Readonly<Record<string, string>> = {
  OOM: 'Redis is full: raise its maxmemory, or have it keep less (RESULT_TTL_S, EVENT_LOG_TTL_S, MAX_OPEN_RUNS)',
  READONLY: 'Redis is a read-only replica: promote it, or set REDIS_URL to its master',
  NOREPLICAS: 'Redis takes no writes without the replicas that min-replicas-to-write asks for: connect them again',
  MISCONF: 'Redis cannot write to its disk: look for free space and into its log',
  LOADING: 'Redis is reading its data from disk: wait until it has',
  BUSY: 'a script keeps Redis busy: wait for its end, or stop it with SCRIPT KILL',
  CLUSTERDOWN: 'the Cluster does not serve all slots: start the missing node again or fail over to its replica',
};

/** Undefined for an error that Redis did not answer. */
function remedyOf(error: Error): string | undefined {
  if (error.name !== 'ReplyError') return undefined;
  const [word = ''] = error.message.split(' ', 1);
  if (/^(NOPERM|NOAUTH|WRONGPASS)$/.test(word)) return rightsProblem(error.message);
  return remedies[word] ?? `Redis answers ${word} to a write`;
}

/** For each master of the Cluster a hash tag that it owns, and one for slots without a master. */
function tagsOf(owners: readonly (string | undefined)[]): readonly string[] {
  const missing = new Set(owners);
  const tags: string[] = [];
  for (let i = 0; missing.size > 0 && i < maxTags; i++) {
    if (missing.delete(owners[crc16(`${i}`) % owners.length])) tags.push(`${i}`);
  }
  return tags;
}

/** CRC16 (XMODEM): modulo the number of slots it is the slot of a hash tag, as the specification of the Cluster has it. */
function crc16(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc;
}
