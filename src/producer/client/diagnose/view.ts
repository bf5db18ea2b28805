import { z } from 'zod';
import { providerReport } from '../../../shared/contract/provider-report.ts';
import { breakerState, check, queueState } from '../../../shared/contract/report/fleet.ts';
import { durabilityLevels, type Diagnosis } from './diagnose.ts';

const count = z.int().min(0);
const waiting = z.object({ waiting: count });

/** What `doctor` judges, as it is shown: see `Diagnosis`. */
export const diagnosisView = z.object({
  redis: z.object({
    version: z.string(),
    mode: z.string(),
    aof: z.boolean(),
    appendfsync: z.string().optional(),
    maxmemoryPolicy: z.string().optional(),
    usedMemoryBytes: count,
    maxMemoryBytes: count,
    connectedReplicas: count,
    clockOffsetMs: z.int(),
    roundTripMs: count,
  }),
  durability: z.enum(durabilityLevels),
  openRuns: count,
  oldestQueuedMs: z.record(z.string(), count),
  stuckRuns: z.array(z.object({ runId: z.string(), tenant: z.string(), status: z.string(), ageMs: count })),
  workers: z.array(
    z.object({
      name: z.string(),
      heartbeatAgeMs: count,
      queues: z.array(z.string()),
      concurrency: count,
      active: count,
      version: z.string(),
      providers: z.array(providerReport),
    }),
  ),
  queues: z.record(z.string(), queueState),
  quarantined: count,
  counters: z.record(z.string(), z.number()),
  waits: z.object({
    breakers: z.array(breakerState),
    limiters: z.array(waiting.extend({ model: z.string() })),
    money: z.array(waiting.extend({ tenant: z.string(), account: z.string() })),
    people: z.array(waiting.extend({ tenant: z.string(), oldestMs: count })),
    threads: z.array(
      waiting.extend({ tenant: z.string(), threadId: z.string(), lockOwner: z.string(), suspended: z.boolean() }),
    ),
  }),
  flows: z.array(z.object({ tenant: z.string(), lastDay: count, blocked: count, coversMs: count.optional() })),
  batches: z.object({ open: count, processes: count }),
  archive: z.object({
    kind: z.enum(['redis', 'folder', 's3']),
    ttlS: count,
    waiting: count,
    oldestWaitingMs: count,
    inRedis: z.object({ runs: count, bytes: count, maxBytes: count, coversMs: count }).optional(),
  }),
  checks: z.array(check).describe('What `doctor` says about it.'),
});

/** What one tenant may see of it: the fleet as a whole, and of runs, threads and accounts only its own. */
export function ownPartOf(diagnosis: Diagnosis, tenant: string): Diagnosis {
  const { stuckRuns, waits, flows } = diagnosis;
  const own = <T extends { readonly tenant: string }>(items: readonly T[]) =>
    items.filter((item) => item.tenant === tenant);
  const { money, people, threads } = waits;
  return {
    ...diagnosis,
    stuckRuns: own(stuckRuns),
    waits: { ...waits, money: own(money), people: own(people), threads: own(threads) },
    flows: own(flows),
  };
}
