import { assertNever } from '../../base/errors.ts';
import {
  loadScript,
  runScript,
  type RunKeySpace,
  publishCommand,
  scriptEvent,
  publishLifecycle,
  type OutgoingEvent,
} from '../script.ts';
import { redisError, refusal } from '../errors.ts';
import type { CommitReply } from './commit.ts';

const script = loadScript(import.meta.url, './flush.lua');

/** Bounds of one call: Redis serves no other client meanwhile. */
const maxRuns = 64;
const maxBytes = 1_048_576;

interface Flush {
  readonly runId: string;
  readonly seq: number;
  readonly events: readonly OutgoingEvent[];
  readonly texts: readonly string[];
  readonly bytes: number;
  readonly resolve: (reply: CommitReply) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * `flush.lua` as a function that gathers: the flushes of this process within one tick are sent in one call of at most 64 runs and
 * 1 MB (a single larger flush goes alone). In a Cluster every run is a call of its own.
 */
export class FlushGatherer {
  readonly #space: RunKeySpace;
  #waiting: Flush[] = [];

  constructor(space: RunKeySpace) {
    this.#space = space;
  }

  /** Throws `queue_unavailable` for this run alone when Redis cannot be reached or refuses its write. */
  flush(runId: string, seq: number, events: readonly OutgoingEvent[]): Promise<CommitReply> {
    const { promise, resolve, reject } = Promise.withResolvers<CommitReply>();
    const texts = events.map(scriptEvent);
    const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    // Timers that fire in the same tick run before this does.
    if (this.#waiting.length === 0) setImmediate(() => this.#send());
    this.#waiting.push({ runId, seq, events, texts, bytes, resolve, reject });
    return promise;
  }

  #send(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const group of groups(waiting, this.#space.cluster ? 1 : maxRuns)) void this.#call(group);
  }

  async #call(group: readonly Flush[]): Promise<void> {
    try {
      const results = await this.#run(group);
      for (const [index, flush] of group.entries()) this.#settle(flush, results[index] ?? 'ERR no result');
    } catch (error) {
      for (const flush of group) flush.reject(redisError(error, `flush of run ${flush.runId}`));
    }
  }

  async #run(group: readonly Flush[]): Promise<readonly (0 | 1 | string)[]> {
    const { redis, keys, lifecycle, eventLogMax } = this.#space;
    const logs = group.map(({ runId }) => keys.events(runId));
    const runs = group.flatMap(({ runId, seq, texts }) => [keys.live(runId), seq, texts.length, ...texts]);
    const reply = await runScript(
      redis,
      script,
      [...logs, lifecycle.keyOf(group[0]?.runId ?? '')],
      [group.length, eventLogMax, keys.firehose, publishCommand(this.#space), ...runs],
      { doing: group.length === 1 ? `flush of run ${group[0]?.runId}` : 'flush of runs' },
    );
    return reply as readonly (0 | 1 | string)[];
  }

  #settle(flush: Flush, result: 0 | 1 | string): void {
    if (typeof result === 'string') return flush.reject(refusal(result, `flush of run ${flush.runId}`));
    switch (result) {
      case 0:
        return flush.resolve({ kind: 'fenced' });
      case 1: {
        publishLifecycle(this.#space, flush.runId, flush.events);
        return flush.resolve({ kind: 'ok', seq: flush.seq + flush.events.length });
      }
      default:
        return assertNever(result);
    }
  }
}

function* groups(flushes: readonly Flush[], limit: number): Generator<readonly Flush[]> {
  let group: Flush[] = [];
  let bytes = 0;
  for (const flush of flushes) {
    if (group.length > 0 && (group.length >= limit || bytes + flush.bytes > maxBytes)) {
      yield group;
      group = [];
      bytes = 0;
    }
    group.push(flush);
    bytes += flush.bytes;
  }
  if (group.length > 0) yield group;
}
