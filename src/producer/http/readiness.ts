import { z } from 'zod';
import { orLate } from '../../shared/base/deadline.ts';
import { rightsProblem } from '../../shared/state/errors.ts';
import { providerReport, type ProviderReport } from '../../shared/contract/provider-report.ts';
import type { Config } from '../../shared/contract/config.ts';
import type { WriteProblem } from '../../shared/state/write-probe.ts';
import { durabilityLevels, type DurabilityLevel } from '../client/diagnose/diagnose.ts';
import { sharedFor } from '../client/shared-for.ts';

const maxAgeMs = 1_000;
/** Less than the second that a probe usually waits. */
const deadlineMs = 800;
/** Settings of Redis change rarely, and asking for them is not cheap. */
const durabilityAgeMs = 30_000;
const queuesAgeMs = 5_000;

/** What `/readyz` answers. */
export const readinessAnswer = z.object({
  status: z.enum(['ready', 'not_ready']),
  /** `refuses`: it answers, and takes no writes. */
  redis: z.enum(['ok', 'refuses', 'away']),
  /** The level that Redis offers, absent while it is not known yet. */
  durability: z.enum(durabilityLevels).optional(),
  reason: z.string().optional(),
  // No reason to turn traffic away: their runs wait. Absent: none is known.
  unservedQueues: z.array(z.string()).readonly().optional().describe('Run queues that no live worker serves.'),
  providers: z
    .array(providerReport)
    .readonly()
    .optional()
    .describe('The model providers that live workers report, by id. Absent: no worker reports any.'),
});
type ReadinessAnswer = Readonly<z.infer<typeof readinessAnswer>>;

export interface ReadinessProbes {
  /** Undefined while Redis takes writes. Never rejects. */
  writeProblem(): Promise<WriteProblem | undefined>;
  durability(): Promise<DurabilityLevel>;
  unservedQueues(): Promise<readonly string[]>;
  providers(): Promise<readonly ProviderReport[]>;
}

/**
 * Does Redis take writes, and does it keep what we promise? Probes within one second share a look, and no probe waits longer
 * than 800 ms.
 */
export class ProducerReadiness {
  readonly #probes: ReadinessProbes;
  readonly #required: Config['MILLRACE_DURABILITY'];
  readonly #durability: Remembered<DurabilityLevel>;
  readonly #unserved: Remembered<readonly string[]>;
  readonly #providers: Remembered<readonly ProviderReport[]>;

  constructor(probes: ReadinessProbes, required: Config['MILLRACE_DURABILITY']) {
    this.#probes = probes;
    this.#required = required;
    this.#durability = new Remembered(() => probes.durability(), durabilityAgeMs);
    this.#unserved = new Remembered(() => probes.unservedQueues(), queuesAgeMs);
    this.#providers = new Remembered(() => probes.providers(), queuesAgeMs);
  }

  /** Never rejects. */
  readonly look = sharedFor(maxAgeMs, () => this.#ask());

  async #ask(): Promise<ReadinessAnswer> {
    const until = performance.now() + deadlineMs;
    const problem = await orLate(deadlineMs, this.#probes.writeProblem(), () => silent);
    if (problem) return { status: 'not_ready', ...problem };
    // Neither rejects. A fact that takes longer shows the next time.
    const learnt = Promise.all([this.#durability.learn(), this.#unserved.learn(), this.#providers.learn()]);
    await orLate(until - performance.now(), learnt, () => undefined);
    const denied = deniedBy(this.#durability.error) ?? deniedBy(this.#unserved.error);
    if (denied !== undefined) return { status: 'not_ready', redis: 'ok', reason: denied };
    const unservedQueues = this.#unserved.value ?? [];
    const providers = this.#providers.value ?? [];
    return {
      ...this.#judge(),
      unservedQueues: unservedQueues.length > 0 ? unservedQueues : undefined,
      providers: providers.length > 0 ? providers : undefined,
    };
  }

  #judge(): ReadinessAnswer {
    const durability = this.#durability.value;
    if (durability === undefined) {
      if (this.#required === 'any') return { status: 'ready', redis: 'ok' };
      return { status: 'not_ready', redis: 'ok', reason: 'it is not known yet what Redis keeps' };
    }
    const missing = missingDurability(durability, this.#required);
    // Each run waits for its replica and is refused without one; everything else that callers do needs none.
    const refusesByItself = this.#required === 'replica' && durability === 'host';
    if (missing) return { status: refusesByItself ? 'ready' : 'not_ready', redis: 'ok', durability, reason: missing };
    return { status: 'ready', redis: 'ok', durability };
  }
}

const silent: WriteProblem = { redis: 'away', reason: 'Redis does not answer' };

/** What the user of Redis may not do, where an error names it. */
function deniedBy(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (/^(NOPERM|NOAUTH|WRONGPASS)\b/.test(cause.message)) return rightsProblem(cause.message);
  }
  return undefined;
}

/** The last answer to a question that is not asked again for a while. A question that fails is asked again at once. */
class Remembered<T> {
  readonly #ask: () => Promise<T>;
  readonly #maxAgeMs: number;
  #askedAt = Number.NEGATIVE_INFINITY;
  value: T | undefined;
  /** Why it could not be learnt the last time. */
  error: unknown;

  constructor(ask: () => Promise<T>, maxAgeMs: number) {
    this.#ask = ask;
    this.#maxAgeMs = maxAgeMs;
  }

  /** Never rejects. */
  async learn(): Promise<void> {
    const now = performance.now();
    if (now - this.#askedAt < this.#maxAgeMs) return;
    this.#askedAt = now;
    try {
      this.value = await this.#ask();
      this.error = undefined;
    } catch (error) {
      this.error = error;
      this.#askedAt = Number.NEGATIVE_INFINITY;
    }
  }
}

const remedies = {
  process: 'set appendonly yes and maxmemory-policy noeviction in Redis',
  host: 'set appendonly yes, appendfsync always and maxmemory-policy noeviction in Redis',
  replica: 'set appendonly yes, appendfsync always and maxmemory-policy noeviction in Redis and connect a replica',
};

/** What to do when Redis keeps less than is required, or undefined when it keeps enough. */
export function missingDurability(offered: DurabilityLevel, asked: Config['MILLRACE_DURABILITY']): string | undefined {
  if (asked === 'any' || durabilityLevels.indexOf(offered) >= durabilityLevels.indexOf(asked)) return undefined;
  return `durability is ${offered} and MILLRACE_DURABILITY asks for ${asked}: ${remedies[asked]}, or ask for less`;
}
