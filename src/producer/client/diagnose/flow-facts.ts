import { auditedSince, auditReach, readAudit } from '../../../shared/state/audit/audit-stream.ts';
import type { Connected } from '../client-core.ts';
import { isFound } from '../flows/flows.ts';

/** What guards found in the runs of a tenant in the last day, and how far back its audit goes. */
export interface FlowFacts {
  readonly tenant: string;
  /** At most the newest thousand are counted. */
  readonly lastDay: number;
  /** The part of them that was stopped. */
  readonly blocked: number;
  /** Milliseconds that the audit covers, where it has no room for more; undefined: it covers its whole time. */
  readonly coversMs: number | undefined;
}

const dayMs = 86_400_000;
const weekMs = 7 * dayMs;
const maxTenants = 100;
const maxCounted = 1_000;

/** Of at most a hundred tenants, those with findings in the last week, newest first. */
export async function flowFacts({ core: { keys }, redis }: Connected): Promise<readonly FlowFacts[]> {
  const now = Date.now();
  const tenants = await auditedSince({ redis, keys }, now - weekMs, maxTenants);
  return await Promise.all(
    tenants.map(async (tenant) => {
      const range = { from: String(now - dayMs), to: '+' };
      const [found, { isFull, oldestMs = now }] = await Promise.all([
        readAudit({ redis, keys }, tenant, range, maxCounted),
        auditReach({ redis, keys }, tenant),
      ]);
      const flows = found.flatMap(({ entry }) => (entry && isFound(entry) ? [entry] : []));
      const blocked = flows.filter(({ decision }) => decision === 'blocked').length;
      return { tenant, lastDay: flows.length, blocked, coversMs: isFull ? now - oldestMs : undefined };
    }),
  );
}
