import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import { RunError } from '../../shared/base/errors.ts';
import { sessionId, sessionTtlS } from '../../shared/state/console-sessions.ts';

const cookieName = 'millrace_session';
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** What the console sends with everything that changes something: no form and no link of another site can. */
export const consoleHeader = 'x-millrace-console';

/** The id of the session that the browser has, if it sent one. */
export function sessionIdOf({ headers }: IncomingMessage): string | undefined {
  for (const part of (headers.cookie ?? '').split(';')) {
    const [name, value] = part.trim().split('=', 2);
    if (name === cookieName && value !== undefined && sessionId.test(value)) return value;
  }
  return undefined;
}

/**
 * The cookie for a session, or with an empty id the one that takes it away. No script can read it and no other site can
 * make the browser send it. Behind TLS, also that of a proxy, it never travels without.
 */
export function sessionCookie(id: string, request: IncomingMessage): string {
  const secure = request.socket instanceof TLSSocket || forwardedProto(request) === 'https';
  const parts = [
    `${cookieName}=${id}`,
    'Path=/',
    `Max-Age=${id === '' ? 0 : sessionTtlS}`,
    'HttpOnly',
    'SameSite=Strict',
    ...(secure ? ['Secure'] : []),
  ];
  return parts.join('; ');
}

/** How the client came to the first of the proxies: each adds what it saw at the end. */
function forwardedProto({ headers }: IncomingMessage): string | undefined {
  return headers['x-forwarded-proto']?.toString().split(',')[0]?.trim().toLowerCase();
}

/**
 * Refuses with `forbidden` what a page of another origin could have made a browser send with its cookie: anything that
 * says so itself, and a change without the console's own header and a sign of the same origin.
 */
export function refuseForeignRequest({ method = '', headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && (site !== 'none' || !safeMethods.has(method)))
    throw new RunError('forbidden', 'a session is only for pages of the producer itself');
  if (safeMethods.has(method)) return;
  if (headers[consoleHeader] !== '1')
    throw new RunError('forbidden', `with a session, a change needs the header ${consoleHeader}: 1`);
  if (site === undefined && !isOwnOrigin(headers.origin, headers.host))
    throw new RunError('forbidden', 'with a session, a change needs an Origin header that names the producer');
}

function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host;
}
