import {
  auditEntry,
  auditRetentionMs,
  auditVersion,
  maxAuditEntries,
  type AuditEntry,
  type Deed,
} from '../../contract/audit.ts';
import { jsonOr, jsonText } from '../../base/json.ts';
import type { KeySpace } from '../keys.ts';
import { loadScript, runScript } from '../script.ts';

const deedScript = loadScript(import.meta.url, './add-deed.lua');
const moveScript = loadScript(import.meta.url, './move-entry.lua');

/** As long as a run keeps what it has not published. */
const rememberedS = 604_800;

/**
 * Adds an entry that a run left in its own stream to that of the tenant. The same entry again changes nothing, so a process that
 * dies before it has removed the entry there makes no second one here. Throws `queue_unavailable`.
 */
export async function moveAuditEntry(
  { redis, keys }: KeySpace,
  { id, runId, json }: { readonly id: string; readonly runId: string; readonly json: string },
): Promise<void> {
  const { tenant = '' } = (jsonOr(json) ?? {}) as { readonly tenant?: string };
  const own = [keys.audit(tenant), keys.auditMoved(tenant, runId)];
  await Promise.all([
    runScript(redis, moveScript, own, [id, json, rememberedS], { doing: `audit of run ${runId}` }),
    noteAudit({ redis, keys }, tenant),
  ]);
}

/** What someone did, as an entry. */
export function deedText(deed: Deed, tenant: string): string {
  return jsonText({ v: auditVersion, tenant, ...deed });
}

/** Adds what someone did, right after it. Throws `queue_unavailable`: the request that did it is then sent again. */
export async function addDeed(space: KeySpace, tenant: string, deed: Deed): Promise<void> {
  const key = space.keys.audit(tenant);
  const entry = [deedText(deed, tenant)];
  await Promise.all([
    runScript(space.redis, deedScript, [key], entry, { doing: `audit of tenant ${tenant}` }),
    noteAudit(space, tenant),
  ]);
}

/** Notes that this tenant has entries, or is about to. Those whose last one is too old are forgotten. */
export async function noteAudit({ redis, keys }: KeySpace, tenant: string): Promise<void> {
  const now = Date.now();
  await Promise.all([
    redis.zadd(keys.audits, now, tenant),
    redis.zremrangebyscore(keys.audits, '-inf', now - auditRetentionMs),
  ]);
}

/** The tenants with entries since then, those with the newest first. */
export async function auditedSince({ redis, keys }: KeySpace, sinceMs: number, most: number): Promise<string[]> {
  return await redis.zrevrangebyscore(keys.audits, '+inf', sinceMs, 'LIMIT', 0, most);
}

/** An entry, and its id in the stream: higher than those of all entries that came before. */
export interface FoundEntry {
  readonly id: string;
  /** Undefined: of a kind, or a version, that this process does not know. */
  readonly entry: AuditEntry | undefined;
}

/** Ids between which entries are read, both included; `(` before one leaves it out. */
export interface AuditRange {
  readonly from: string;
  readonly to: string;
}

/** Entries of a tenant, the newest first unless `oldest` is asked for. */
export async function readAudit(
  { redis, keys }: KeySpace,
  tenant: string,
  { from, to }: AuditRange,
  count: number,
  first: 'newest' | 'oldest' = 'newest',
): Promise<readonly FoundEntry[]> {
  const key = keys.audit(tenant);
  const entries =
    first === 'newest'
      ? await redis.xrevrange(key, to, from, 'COUNT', count)
      : await redis.xrange(key, from, to, 'COUNT', count);
  return entries.map(([id, [, json = '']]) => ({ id, entry: auditEntry.safeParse(jsonOr(json)).data }));
}

export interface AuditReach {
  readonly entries: number;
  /** When the oldest entry came, in milliseconds since the epoch; undefined: there is none. */
  readonly oldestMs: number | undefined;
  /** There is no room: an entry that comes removes the oldest, whatever its age. */
  readonly isFull: boolean;
}

/** How far back the stream of a tenant goes. What is older than its time does not count, though Redis may still have it. */
export async function auditReach({ redis, keys }: KeySpace, tenant: string): Promise<AuditReach> {
  const kept = String(Date.now() - auditRetentionMs);
  const [entries, [oldest]] = await Promise.all([
    redis.xlen(keys.audit(tenant)),
    redis.xrange(keys.audit(tenant), kept, '+', 'COUNT', 1),
  ]);
  return { entries, oldestMs: oldest && entryMs(oldest[0]), isFull: entries >= maxAuditEntries };
}

/** When an entry came, in milliseconds since the epoch. */
export function entryMs(id: string): number {
  return Number(id.split('-')[0]);
}
