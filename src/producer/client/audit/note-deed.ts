import { defined } from '../../../shared/base/collections.ts';
import type { Deed } from '../../../shared/contract/audit.ts';
import { addDeed } from '../../../shared/state/audit/audit-stream.ts';
import type { Reached } from '../client-core.ts';

type WithoutHead<D> = D extends unknown ? Omit<D, 'at' | 'by'> : never;

/** Adds what this caller did to the audit log of its tenant, with the time and who it was. Throws `queue_unavailable`. */
export async function noteDeed({ core, redis, tenant, by }: Reached, deed: WithoutHead<Deed>): Promise<void> {
  const entry = defined({ ...deed, at: new Date().toISOString(), by }) as Deed;
  await addDeed({ redis, keys: core.keys }, tenant, entry);
}
