import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { BlockList, isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { ApiKey, Scope } from '../../shared/contract/config.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { Rights } from '../client/accept/validate.ts';
import type { Millrace } from '../client/millrace.ts';
import type { App } from './app.ts';

const tenantWithoutKeys = 'default';

/**
 * Decides who calls before anything of the request is read, and gives the request its tenant's client. A route
 * without `access` stops the server from being built.
 */
export function guardRoutes(app: App, mill: Millrace, apiKeys: readonly ApiKey[]): void {
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
    const { tenant, caller, rights } = identify(request, access, apiKeys);
    request.mill = mill.forTenant(tenant, rights, request.id, caller);
    request.caller = caller;
    request.tenant = tenant;
    request.rights = rights;
  });
}

function identify(request: FastifyRequest, scope: Scope, apiKeys: readonly ApiKey[]) {
  if (apiKeys.length > 0) {
    const { tenant, sha256, scopes } = authorize(request.headers.authorization, scope, apiKeys);
    const rights: Rights = scopes.has('admin') ? 'operator' : 'caller';
    return { tenant, caller: `key:${sha256.slice(0, 8)}`, rights };
  }
  refuseForeignPages(request.headers);
  return { tenant: tenantWithoutKeys, caller: 'local', rights: 'operator' as const };
}

/** The key that an `Authorization` header carries. Throws `unauthorized`, or `forbidden` when it lacks the scope. */
export function authorize(header: string | undefined, scope: Scope, apiKeys: readonly ApiKey[]): ApiKey {
  const presented = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
  if (!presented) throw new RunError('unauthorized', 'an API key is required: Authorization: Bearer KEY');
  const digest = createHash('sha256').update(presented).digest();
  // Every configured key is compared, and each in constant time: the duration reveals nothing.
  let found: ApiKey | undefined;
  for (const key of apiKeys) if (timingSafeEqual(digest, Buffer.from(key.sha256, 'hex'))) found ??= key;
  if (!found) throw new RunError('unauthorized', 'this API key is not known');
  if (!found.scopes.has(scope)) throw new RunError('forbidden', `this API key lacks the scope ${scope}`);
  return found;
}

/**
 * Without keys the loopback address is the only protection, and a web page in a browser on this machine can reach it
 * too: by a cross-site POST, which carries a foreign `Origin`, or by a DNS name of its own that is made to point here,
 * which shows as a foreign `Host`. Both are refused with `forbidden`.
 */
function refuseForeignPages({ host, origin }: IncomingHttpHeaders): void {
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
