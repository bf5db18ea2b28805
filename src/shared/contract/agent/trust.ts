import { z } from 'zod';

/**
 * Where a result comes from, and so how far it is trusted. `sanitization` says what is done to it by default. `external`: what
 * strangers wrote, like mails, tickets and uploaded files.
 */
export const trustClass = z.enum([
  'built-in',
  'user-defined',
  'trusted-skill',
  'external',
  'untrusted-skill',
  'mcp-derived',
  'web-search',
]);
export type TrustClass = z.infer<typeof trustClass>;

/** Text of these classes may hold instructions of strangers. */
export function isUntrusted(trust: TrustClass): boolean {
  return trust !== 'built-in' && trust !== 'user-defined' && trust !== 'trusted-skill';
}

/** The least trusted of two classes. */
export function lessTrusted(a: TrustClass, b: TrustClass | undefined): TrustClass {
  const order = trustClass.options;
  return b === undefined || order.indexOf(a) >= order.indexOf(b) ? a : b;
}
