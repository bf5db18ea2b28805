import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The processes that Millrace consists of. */
export type Role = 'producer' | 'worker';

/** The entry file of a role, in the source of a checkout or in what was built from it. */
export function entryOf(role: Role): string {
  return fileURLToPath(new URL(`../../../${role}/main${extname(import.meta.url)}`, import.meta.url));
}
