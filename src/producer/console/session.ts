import { signal } from '@preact/signals';
import type { Scope } from '../../shared/contract/config.ts';

/** Who this browser is for the producer. */
export type Session =
  | { readonly state: 'unknown' }
  | { readonly state: 'out' }
  | {
      readonly state: 'in';
      readonly tenant: string;
      readonly scopes: readonly Scope[];
      /** False: the producer has no keys, and everybody on its machine may do everything. */
      readonly keys: boolean;
    };

export const session = signal<Session>({ state: 'unknown' });

/** May this session do what needs the scope? Views hide or disable what it may not; the producer refuses it anyway. */
export function may(scope: Scope): boolean {
  const now = session.value;
  return now.state === 'in' && now.scopes.includes(scope);
}
