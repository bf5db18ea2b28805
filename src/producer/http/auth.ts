import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { ApiKey, Scope } from '../../shared/contract/config.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { ConsoleSessions } from '../../shared/state/console-sessions.ts';
import type { Rights } from '../client/accept/validate.ts';
import type { Millrace } from '../client/millrace.ts';
import type { App } from './app.ts';
import { refuseForeignRequest, sessionIdOf } from './session-cookie.ts';

export const tenantWithoutKeys = 'default';

/**
 * Decides who calls before anything of the request is read, and gives the request its tenant's client. A route
 * without `access` stops the server from being built.
 */
export function guardRoutes(app: App, mill: Millrace, apiKeys: readonly ApiKey[], sessions: ConsoleSessions): void {
  app.decorateRequest('mill');
  app.decorateRequest('caller', '');
  app.decorateRequest('tenant', '');
  app.decorateRequest('rights', 'caller');
  app.addHook('onRoute', ({ url, config }) => {
    if (!config?.access) throw new RunError('internal', `route ${url} does not say what access it needs`);
  });
  app.addHook('onRequest', async (request) => {
    const { access } = request.routeOptions.config;
    if (access === undefined || access === 'open') return;
    const { tenant, caller, rights } = await identify(request, access, apiKeys, sessions);
    request.mill = mill.forTenant(tenant, rights, request.id, caller);
    request.caller = caller;
    request.tenant = tenant;
    request.rights = rights;
  });
}

async function identify(request: FastifyRequest, scope: Scope, apiKeys: readonly ApiKey[], sessions: ConsoleSessions) {
  if (apiKeys.length > 0) {
    const { authorization } = request.headers;
    const isSession = authorization === undefined && sessionIdOf(request.raw) !== undefined;
    const key = isSession ? await keyOfSession(request.raw, apiKeys, sessions) : keyOfBearer(authorization, apiKeys);
    if (!key.scopes.has(scope)) throw new RunError('forbidden', `this API key lacks the scope ${scope}`);
    const rights: Rights = key.scopes.has('admin') ? 'operator' : 'caller';
    return { tenant: key.tenant, caller: `key:${key.sha256.slice(0, 8)}`, rights };
  }
  refuseForeignPages(request.headers);
  return { tenant: tenantWithoutKeys, caller: 'local', rights: 'operator' as const };
}

/** The key that an `Authorization` header carries. Throws `unauthorized`. */
export function keyOfBearer(header: string | undefined, apiKeys: readonly ApiKey[]): ApiKey {
  const presented = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
  if (!presented) throw new RunError('unauthorized', 'an API key is required: Authorization: Bearer KEY');
  const key = findKey(presented, apiKeys);
  if (!key) throw new RunError('unauthorized', 'this API key is not known');
  return key;
}

/** Undefined for a key that is not configured. */
export function findKey(presented: string, apiKeys: readonly ApiKey[]): ApiKey | undefined {
  const digest = createHash('sha256').update(presented).digest();
  // Every configured key is compared, and each in constant time: the duration reveals nothing.
  let found: ApiKey | undefined;
  for (const key of apiKeys) if (timingSafeEqual(digest, Buffer.from(key.sha256, 'hex'))) found ??= key;
  return found;
}

/**
 * The key that opened the session of a browser. Throws `forbidden` for what another site may have made the browser send,
 * and `unauthorized` when there is no session, it is over, or its key is no longer configured.
 */
export async function keyOfSession(
  request: IncomingMessage,
  apiKeys: readonly ApiKey[],
  sessions: ConsoleSessions,
): Promise<ApiKey> {
  refuseForeignRequest(request);
  const id = sessionIdOf(request);
  const key = id === undefined ? undefined : await sessions.keyOf(id, apiKeys);
  if (!key) throw new RunError('unauthorized', 'this browser has no session, or it is over; log in again');
  return key;
}

/**
 * Without keys the loopback address is the only protection, and a web page in a browser on this machine can reach it
 * too: by a cross-site POST, which carries a foreign `Origin`, or by a DNS name of its own that is made to point here,
 * which shows as a foreign `Host`. Both are refused with `forbidden`.
 */
export function refuseForeignPages({ host, origin }: IncomingHttpHeaders): void {
  const advice = 'without API keys only pages and clients of this machine are served';
  if (!isLoopbackUrl(`http://${host}`))
    throw new RunError('forbidden', `the Host header names another machine; ${advice}`);
  if (origin !== undefined && !isLoopbackUrl(origin))
    throw new RunError('forbidden', `the Origin header names another site; ${advice}`);
}

function isLoopbackUrl(url: string): boolean {
  return URL.canParse(url) && isLoopback(new URL(url).hostname);
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8);
loopback.addAddress('::1', 'ipv6');

/** Does this host name or address mean the machine itself? */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '');
  if (isIP(bare) === 0) return bare === 'localhost' || bare.endsWith('.localhost');
  return loopback.check(bare, isIP(bare) === 6 ? 'ipv6' : 'ipv4');
}
