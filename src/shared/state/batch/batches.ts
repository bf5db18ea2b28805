import { pairsOf } from '../../base/collections.ts';
import { newNonce } from '../../base/ids.ts';
import { jsonText, storedJson } from '../../base/json.ts';
import type { BatchStatus } from '../../contract/batch.ts';
import { isEndedBatch } from '../../contract/plain/batch-ends.ts';
import {
  batchFromHash,
  batchToHash,
  openLine,
  rateStepMs,
  sampledLine,
  type SampledLine,
  type BatchRecord,
  type OpenLine,
} from '../../contract/batch-record.ts';
import { filePart, type FilePart } from '../../contract/files.ts';
import { withNamedErrors } from '../errors.ts';
import type { BatchOutputs, KeySpace } from '../keys.ts';
import { loadScript, runScript, type LuaScript } from '../script.ts';

const script = (file: string) => loadScript(import.meta.url, file);
const scripts = {
  create: script('./create.lua'),
  listOpen: script('./list-open.lua'),
  takeOver: script('./take-over.lua'),
  look: script('./look.lua'),
  leave: script('./leave.lua'),
  nextJob: script('./next-job.lua'),
  move: script('./move.lua'),
  beginLines: script('./begin-lines.lua'),
  noteLine: script('./note-line.lua'),
  takeLines: script('./take-lines.lua'),
  storePart: script('./store-part.lua'),
  pause: script('./pause.lua'),
  resume: script('./resume.lua'),
  cancel: script('./cancel.lua'),
  redrive: script('./redrive.lua'),
  end: script('./end.lua'),
};

/** Batches of one tenant that may be open at once. */
export const maxOpenBatches = 100;
/** A batch has its record so long after it was listed, at the latest. */
const youngMs = 60_000;
/** A tenant that makes no batch for so long has none left in its list. */
const indexTtlS = 120 * 86_400;
/** Old entries of a tenant's list that are looked at when it gets a new one. */
const pruneSample = 10;
const maxSpoolPage = 1_000;
/** A request that comes again without a key is looked for so long. */
const askedTtlS = 600;
/** A process that advances batches and gave no sign of life for so long is gone. */
export const batchProcessTtlMs = 15_000;

/** Who has a batch now: one stay on a process. */
export interface Stay {
  readonly id: string;
  readonly nonce: string;
}

/** A line that is to be begun. `place`: how many lines of the file are before it. */
export interface LineToBegin {
  readonly place: number;
  readonly open: OpenLine;
}

/** An outcome of an open line. Amounts are those of the run in all. */
export interface TakenLine {
  readonly place: number;
  readonly failed: boolean;
  /** Its line of output, with its end. */
  readonly text: string;
  readonly runId: string | undefined;
  readonly costMicrocents: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Of a line of the sample. */
  readonly sampled: SampledLine | undefined;
}

/** Fields that change with the status. */
export type BatchChange = Partial<BatchRecord>;

/** What became of a call of the owner: `lost` when another stay has the batch. */
export type Moved = 'moved' | 'changed' | 'lost';

/** A batch, and how many of its lines are queued or run. */
export interface BatchWithOpen {
  readonly record: BatchRecord;
  readonly open: number;
}

export interface BatchPage {
  readonly found: readonly BatchWithOpen[];
  readonly hasMore: boolean;
}

/** Lines of output of one kind that are in no file yet: first those that are parts of one, then the others. */
export interface WrittenLines {
  readonly parts: readonly FilePart[];
  readonly text: string;
}

/** A batch, and all lines of output that it has beside its files, as they were at one moment. */
export interface BatchWithOutput {
  readonly record: BatchRecord;
  readonly output: WrittenLines;
  readonly errors: WrittenLines;
}

/** Batches in Redis. What changes one is a script; the callers of `begin`, `take`, `move`, `part` and `end` have a stay. */
export type BatchStore = ReturnType<typeof redisBatches>;

export function redisBatches({ redis, keys }: KeySpace) {
  const own = (id: string) => ({
    record: keys.batch(id),
    begun: keys.batchBegun(id),
    failed: keys.batchFailed(id),
    open: keys.batchOpen(id),
    spent: keys.batchSpent(id),
    sample: keys.batchSample(id),
    lines: { output: keys.batchLines(id, 'output'), errors: keys.batchLines(id, 'errors') },
    parts: { output: keys.batchParts(id, 'output'), errors: keys.batchParts(id, 'errors') },
  });
  const run = async (called: LuaScript, id: string, names: readonly string[], args: readonly (string | number)[]) =>
    await runScript(redis, called, names, args, { doing: `${called.name} of batch ${id}` });
  const recordOf = (answer: unknown): BatchRecord | undefined =>
    Array.isArray(answer) && answer.length > 0
      ? batchFromHash(Object.fromEntries(pairsOf(answer as string[])))
      : undefined;
  /** Drops a batch that has ended from the lists of open ones. */
  const unlist = async (id: string, tenant: string): Promise<void> => {
    await redis.zrem(keys.batchesOpen, id);
    await redis.zrem(keys.batchesOpenOf(tenant), id);
    const status = await redis.hget(keys.batch(id), 'status');
    // It was redriven in between.
    if (status === null || isEndedBatch(status as BatchStatus)) return;
    await redis.zadd(keys.batchesOpen, Date.now(), id);
    await redis.zadd(keys.batchesOpenOf(tenant), Date.now(), id);
  };
  /** Takes batches without a record from a list. One that is just being made is listed before it has its record. */
  const forget = async (list: string, ids: readonly string[]): Promise<number> => {
    const listedAt = await redis.zmscore(list, ...ids);
    const gone = ids.filter((_, i) => Number(listedAt[i]) < Date.now() - youngMs);
    return gone.length === 0 ? 0 : await redis.zrem(list, ...gone);
  };
  const load = async (id: string): Promise<BatchRecord | undefined> => {
    const hash = await redis.hgetall(keys.batch(id));
    return Object.keys(hash).length === 0 ? undefined : batchFromHash(hash);
  };
  /** A batch, and how many of its lines are open at the same moment. */
  const loadWithOpen = async (id: string): Promise<BatchWithOpen | undefined> => {
    const answers = await redis.multi().hgetall(keys.batch(id)).hlen(keys.batchOpen(id)).exec();
    const [[failure, hash] = [], [, open] = []] = answers ?? [];
    if (failure) throw failure;
    const fields = hash as Record<string, string>;
    return Object.keys(fields).length === 0 ? undefined : { record: batchFromHash(fields), open: Number(open) };
  };

  return withNamedErrors('batches', {
    /**
     * Creates a batch and lists it. `full` when its tenant has as many open ones as it may have; `exists` when there is one of this id.
     */
    async create(record: BatchRecord): Promise<'created' | 'exists' | 'full'> {
      const { id, tenant, createdAt } = record;
      if ((await redis.exists(keys.batch(id))) === 1) return 'exists';
      // Listed first: an entry too many is dropped, and a batch that is not listed is never advanced.
      const listed = [id, createdAt, maxOpenBatches];
      if ((await run(scripts.listOpen, id, [keys.batchesOpenOf(tenant)], listed)) === 0) return 'full';
      await redis.zadd(keys.batchesOpen, createdAt, id);
      await redis.zadd(keys.batches(tenant), createdAt, id);
      await redis.expire(keys.batches(tenant), indexTtlS);
      await redis.expire(keys.batchesOpenOf(tenant), indexTtlS);
      const created = await run(scripts.create, id, [keys.batch(id)], batchToHash(record));
      await prune(redis, keys, tenant);
      return created === 1 ? 'created' : 'exists';
    },
    load,
    loadWithOpen,
    /** Those lines, by their place. */
    async open(id: string): Promise<ReadonlyMap<number, OpenLine>> {
      const entries = Object.entries(await redis.hgetall(keys.batchOpen(id)));
      return new Map(entries.map(([place, json]) => [Number(place), openLine.parse(storedJson(json))]));
    },
    /** A tenant's batches, newest first, from after the batch `after` on. Undefined: there is no such batch in the list. */
    async list(tenant: string, limit: number, after: string | undefined): Promise<BatchPage | undefined> {
      let from = 0;
      if (after !== undefined) {
        const rank = await redis.zrevrank(keys.batches(tenant), after);
        if (rank === null) return undefined;
        from = rank + 1;
      }
      const ids = await redis.zrevrange(keys.batches(tenant), from, from + limit);
      const found = await Promise.all(ids.slice(0, limit).map(loadWithOpen));
      const gone = ids.filter((_, i) => i < limit && found[i] === undefined);
      if (gone.length > 0) await forget(keys.batches(tenant), gone);
      return { found: found.filter((batch) => batch !== undefined), hasMore: ids.length > limit };
    },

    async takeOver({ id, nonce }: Stay, job: number): Promise<BatchRecord | undefined> {
      return recordOf(await run(scripts.takeOver, id, [keys.batch(id)], [nonce, job]));
    },
    /** The batch as it is; undefined when the stay has lost it. */
    async look(
      { id, nonce }: Stay,
      waiting: { readonly forMoney: number; readonly forPeople: number },
    ): Promise<BatchRecord | undefined> {
      return recordOf(await run(scripts.look, id, [keys.batch(id)], [nonce, waiting.forMoney, waiting.forPeople]));
    },
    /** Ends a stay of a batch that is paused or waits with its quote. `changed`: it does not, and the stay goes on. */
    async leave({ id, nonce }: Stay): Promise<Moved> {
      return movedOf(await run(scripts.leave, id, [keys.batch(id)], [nonce]));
    },
    /** Numbers another job in place of the one that is known; undefined when that is not the last one. */
    async nextJob(id: string, known: string): Promise<number | undefined> {
      return Number(await run(scripts.nextJob, id, [keys.batch(id)], [known])) || undefined;
    },
    /** `wholly`: only when every line has its outcome. */
    async move(
      { id, nonce }: Stay,
      { status, round }: Pick<BatchRecord, 'status' | 'round'>,
      to: BatchStatus,
      change: BatchChange = {},
      wholly = false,
    ): Promise<Moved> {
      const { record, open, begun } = own(id);
      const args = [nonce, status, round, to, wholly ? '1' : '0', ...batchToHash(change)];
      return movedOf(await run(scripts.move, id, [record, open, begun], args));
    },
    /** For each line whether it is open now, has its outcome already, or finds no room. Or one word for all of them. */
    async begin(
      { id, nonce }: Stay,
      lines: readonly LineToBegin[],
    ): Promise<readonly ('open' | 'done' | 'no_room')[] | 'lost' | 'not_now'> {
      const { record, begun, open } = own(id);
      const pairs = lines.flatMap((line) => [line.place, jsonText(line.open)]);
      const answer = await run(scripts.beginLines, id, [record, begun, open], [nonce, ...pairs]);
      if (!Array.isArray(answer)) return answer === 0 ? 'lost' : 'not_now';
      return answer.map((each) => (each === 1 ? 'open' : each === 0 ? 'done' : 'no_room'));
    },
    /** Notes more about an open line. False: the stay has lost the batch. */
    async note({ id, nonce }: Stay, { place, open: line }: LineToBegin): Promise<boolean> {
      const { record, open } = own(id);
      return (await run(scripts.noteLine, id, [record, open], [nonce, place, jsonText(line)])) === 1;
    },
    /** Answers how many were open until now; undefined when the stay has lost the batch. */
    async take({ id, nonce }: Stay, lines: readonly TakenLine[], nowMs: number): Promise<number | undefined> {
      const { record, open, failed, spent, sample, lines: spool } = own(id);
      const args = lines.flatMap((line) => [
        line.place,
        line.failed ? '1' : '0',
        line.text,
        line.runId ?? '',
        line.costMicrocents,
        line.inputTokens,
        line.outputTokens,
        line.sampled === undefined ? '' : jsonText(line.sampled),
      ]);
      const names = [record, open, failed, spent, sample, spool.output, spool.errors];
      const step = Math.floor(nowMs / rateStepMs);
      const taken = Number(await run(scripts.takeLines, id, names, [nonce, step, ...args]));
      return taken < 0 ? undefined : taken;
    },
    async sample(id: string) {
      const entries = await redis.lrange(keys.batchSample(id), 0, -1);
      return entries.map((json) => sampledLine.parse(storedJson(json)));
    },
    /** The oldest lines that are in no part yet: none where there is none, else so many that they come to `bytes` or a little more. */
    async spooled(id: string, of: BatchOutputs, bytes: number): Promise<readonly string[]> {
      const key = keys.batchLines(id, of);
      const [size, count] = await Promise.all([redis.hget(keys.batch(id), bytesField(of)), redis.llen(key)]);
      // About as many as are wanted: each may be as long as an answer.
      const page = Math.max(1, Math.min(maxSpoolPage, Math.ceil((bytes * count) / Math.max(1, Number(size)))));
      const found: string[] = [];
      for (let total = 0; total < bytes;) {
        const more = await redis.lrange(key, found.length, found.length + page - 1);
        found.push(...more);
        total += more.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
        if (more.length < page) break;
      }
      return found;
    },
    /** Records the parts that so many of those lines have become. False: nothing refers to them. */
    async addParts(
      { id, nonce }: Stay,
      of: BatchOutputs,
      {
        round,
        lines,
        bytes,
        parts,
      }: {
        readonly round: number;
        readonly lines: readonly string[];
        readonly bytes: number;
        readonly parts: readonly FilePart[];
      },
    ): Promise<boolean> {
      const { record, lines: spool, parts: list } = own(id);
      const args = [nonce, round, bytesField(of), lines.length, bytes, ...parts.map((part) => jsonText(part))];
      return (await run(scripts.storePart, id, [record, spool[of], list[of]], args)) === 1;
    },
    async parts(id: string, of: BatchOutputs): Promise<readonly FilePart[]> {
      const entries = await redis.lrange(keys.batchParts(id, of), 0, -1);
      return entries.map(partOf);
    },
    /** Undefined: there is no such batch. */
    async withOutput(id: string): Promise<BatchWithOutput | undefined> {
      const { record, parts, lines } = own(id);
      const answers = await redis
        .multi()
        .hgetall(record)
        .lrange(parts.output, 0, -1)
        .lrange(lines.output, 0, -1)
        .lrange(parts.errors, 0, -1)
        .lrange(lines.errors, 0, -1)
        .exec();
      const [hash, ...lists] = (answers ?? []).map(([failure, answer]) => {
        if (failure) throw failure;
        return answer;
      });
      const [answered = [], output = [], failed = [], errors = []] = lists as string[][];
      const fields = hash as Record<string, string>;
      if (Object.keys(fields).length === 0) return undefined;
      return {
        record: batchFromHash(fields),
        output: { parts: answered.map(partOf), text: output.join('') },
        errors: { parts: failed.map(partOf), text: errors.join('') },
      };
    },
    /** Ends a batch. `keepUntilS`: seconds since the epoch at which its record goes. */
    async end(
      { id, nonce }: Stay,
      { tenant, round }: Pick<BatchRecord, 'tenant' | 'round'>,
      to: BatchStatus,
      change: BatchChange,
      keepUntilS: number,
    ): Promise<boolean> {
      const { record, begun, failed, spent, open, sample, lines, parts } = own(id);
      const names = [record, begun, failed, spent, open, sample, ...Object.values(lines), ...Object.values(parts)];
      const args = [nonce, round, to, keepUntilS, ...batchToHash(change)];
      const ended = (await run(scripts.end, id, names, args)) === 1;
      if (ended) await unlist(id, tenant);
      return ended;
    },

    /** Answers the status before; undefined when there is no batch. */
    async pause(id: string): Promise<BatchStatus | undefined> {
      const answer = await run(scripts.pause, id, [keys.batch(id)], []);
      return typeof answer === 'string' ? (answer as BatchStatus) : undefined;
    },
    async resume(id: string, nowMs: number) {
      return steeredOf(await run(scripts.resume, id, [keys.batch(id)], [nowMs]));
    },
    async cancel(id: string, nowMs: number) {
      return steeredOf(await run(scripts.cancel, id, [keys.batch(id)], [nowMs]));
    },
    /** Answers beside that how many lines run again. */
    async redrive(
      { id, tenant }: Pick<BatchRecord, 'id' | 'tenant'>,
      files: Pick<BatchRecord, 'outputId' | 'errorId' | 'expiresAt'>,
      nowMs: number,
    ) {
      const { record, begun, failed, spent, lines, parts } = own(id);
      await redis.zadd(keys.batchesOpen, nowMs, id);
      await redis.zadd(keys.batchesOpenOf(tenant), nowMs, id);
      const names = [record, begun, failed, spent, lines.errors, parts.errors];
      const args = [nowMs, files.expiresAt, files.outputId, files.errorId, newNonce()];
      const answer = await run(scripts.redrive, id, names, args);
      if (!Array.isArray(answer)) return undefined;
      const [before, failures, job] = answer as [BatchStatus, number, number];
      return { before, lines: failures, job: job || undefined };
    },

    /** Open batches of all tenants, as they are listed, from `offset` on. */
    async allOpen(offset: number, limit: number): Promise<readonly string[]> {
      return await redis.zrange(keys.batchesOpen, offset, String(offset + limit - 1));
    },
    async countOpen(): Promise<number> {
      return await redis.zcard(keys.batchesOpen);
    },
    unlist,
    /** Drops a batch without a record from the list of open ones, unless it is just being made. Answers how many that were. */
    forgetOpen: (id: string) => forget(keys.batchesOpen, [id]),
    /** The first of those who look for forgotten batches within `ms` gets true. */
    async maySweep(ms: number): Promise<boolean> {
      return (await redis.set(keys.batchSweep, '1', 'PX', ms, 'NX')) === 'OK';
    },
    /** The batch that the same request has made within ten minutes; else `id`, under which it is known from now on. */
    async askedBefore(tenant: string, digest: string, id: string): Promise<string> {
      const known = await redis.set(keys.batchAsked(tenant, digest), id, 'EX', askedTtlS, 'NX', 'GET');
      return known ?? id;
    },
    /** The request makes another batch: it is the one that a repeat finds. */
    async asked(tenant: string, digest: string, id: string): Promise<void> {
      await redis.set(keys.batchAsked(tenant, digest), id, 'EX', askedTtlS);
    },

    /** A sign of life of a process that advances batches. */
    async heartbeat(process: string, nowMs: number): Promise<void> {
      await redis.zadd(keys.batchProcesses, nowMs, process);
      await redis.zremrangebyscore(keys.batchProcesses, '-inf', nowMs - 10 * batchProcessTtlMs);
    },
    async farewell(process: string): Promise<void> {
      await redis.zrem(keys.batchProcesses, process);
    },
    /** Live processes that advance batches. */
    async processes(nowMs: number): Promise<number> {
      return await redis.zcount(keys.batchProcesses, nowMs - batchProcessTtlMs, '+inf');
    },
  });
}

function partOf(json: string): FilePart {
  return filePart.parse(storedJson(json));
}

function bytesField(of: BatchOutputs): 'outputBytes' | 'errorBytes' {
  return of === 'output' ? 'outputBytes' : 'errorBytes';
}

function movedOf(answer: unknown): Moved {
  return answer === 1 ? 'moved' : answer === 2 ? 'changed' : 'lost';
}

/** What a caller's wish found, and the number of the job that is to be added. */
function steeredOf(answer: unknown): { readonly before: BatchStatus; readonly job: number | undefined } | undefined {
  if (!Array.isArray(answer)) return undefined;
  const [before, job] = answer as [BatchStatus, number];
  return { before, job: job || undefined };
}

/** Drops the oldest entries whose record is gone. */
async function prune(redis: KeySpace['redis'], keys: KeySpace['keys'], tenant: string): Promise<void> {
  const oldest = await redis.zrange(keys.batches(tenant), 0, String(pruneSample - 1));
  const there = await Promise.all(oldest.map(async (id) => await redis.exists(keys.batch(id))));
  const gone = oldest.filter((_, i) => there[i] === 0);
  if (gone.length > 0) await redis.zrem(keys.batches(tenant), ...gone);
}
