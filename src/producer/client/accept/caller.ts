import { RunError } from '../../../shared/base/errors.ts';

/**
 * `operator`: a process that reaches Redis, or a key with the scope `admin`. `caller`: every other client, which gets no more than
 * operators and the authors of agents gave.
 */
export type Rights = 'operator' | 'caller';

/** On whose behalf something is asked for. */
export interface Caller {
  readonly tenant: string;
  readonly rights: Rights;
  /** Of the HTTP request, for the lines of logs. */
  readonly requestId: string | undefined;
}

/** Throws `forbidden` for a caller. `what` completes "… needs the scope admin". */
export function requireOperator({ rights }: Pick<Caller, 'rights'>, what: string): void {
  if (rights === 'caller') throw new RunError('forbidden', `${what} needs the scope admin`);
}
