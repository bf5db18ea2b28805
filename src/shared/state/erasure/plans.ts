import { z } from 'zod';
import { jsonText, storedJson } from '../../base/json.ts';
import { erasedCounts } from '../../contract/erasure/receipt.ts';
import type { KeySpace } from '../keys.ts';

/** Longer than anyone takes to repeat a request whose producer has died. */
const keptS = 7 * 86_400;

const plannedRun = z.object({
  runId: z.string(),
  /** Where it can have jobs. */
  queues: z.array(z.string()),
  segment: z.int().optional(),
  createdAt: z.string(),
  /** Its lifecycle events were written until then, in milliseconds. */
  toMs: z.number(),
  lastSequence: z.int().optional(),
  batch: z.string().optional(),
  executionId: z.string().optional(),
});
export type PlannedRun = z.infer<typeof plannedRun>;

/**
 * What one erasure removes, written down before it removes anything: a request that is repeated after a crash removes the rest, and
 * its receipt counts all of it. Ids and numbers only.
 */
const erasurePlan = z.object({
  /** Of what was asked for: a repeat of the request finds the plans of the first try. */
  asked: z.string(),
  runs: z.array(plannedRun),
  threads: z.array(z.string()),
  media: z.array(z.string()),
  files: z.array(z.string()),
  /** Runs whose record cannot be read, erased or left. */
  unreadable: z.array(z.string()),
  /** Files that stay. */
  kept: z.object({ media: z.array(z.string()), files: z.array(z.string()) }),
  counts: erasedCounts,
});
export type ErasurePlan = z.infer<typeof erasurePlan>;

/** Named plans of a tenant. */
export type NamedPlan = readonly [name: string, plan: ErasurePlan];

export async function writePlan({ redis, keys }: KeySpace, tenant: string, [name, plan]: NamedPlan): Promise<void> {
  const key = keys.erasing(tenant);
  await redis.multi().hset(key, name, jsonText(plan)).expire(key, keptS).exec();
}

/** The plans that a request which asked for the same has left. */
export async function plansOf({ redis, keys }: KeySpace, tenant: string, asked: string): Promise<readonly NamedPlan[]> {
  const all = Object.entries(await redis.hgetall(keys.erasing(tenant)));
  const plans = all.map(([name, json]) => [name, erasurePlan.parse(storedJson(json))] as const);
  return plans.filter(([, plan]) => plan.asked === asked);
}

/** The receipt of these is signed. */
export async function dropPlans({ redis, keys }: KeySpace, tenant: string, names: readonly string[]): Promise<void> {
  if (names.length > 0) await redis.hdel(keys.erasing(tenant), ...names);
}
