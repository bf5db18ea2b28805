import { z } from 'zod';
import { systemClock } from '../../../shared/base/clock.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { scope, type ApiKey } from '../../../shared/contract/config.ts';
import type { App, Services } from '../app.ts';
import { findKey, keyOfBearer, keyOfSession, refuseForeignPages, tenantWithoutKeys } from '../auth.ts';
import { FailedLogins } from '../failed-logins.ts';
import { errors } from '../openapi.ts';
import { refuseForeignRequest, sessionCookie, sessionIdOf } from '../session-cookie.ts';

const sessionView = z.object({
  tenant: z.string(),
  scopes: z.array(scope).readonly().describe('What it may do.'),
  keys: z.boolean().describe('False: the producer has no API keys, so every page of its machine may do everything.'),
});
type SessionView = z.infer<typeof sessionView>;

const openSchema = {
  operationId: 'openSession',
  summary: 'Log in to the console',
  description:
    'Changes an API key into a session of twelve hours: a cookie that no script can read. It may do what the key may do, and ends when the producer no longer knows the key. Requests with the cookie that change something need the header `x-millrace-console: 1` and must come from a page of the producer. Programs use the key itself. After ten wrong keys from one address within a minute further ones are answered 429 `rate_limited` with `Retry-After`; a right key is always let in. A key has at most 100 sessions: one more closes its oldest.',
  body: z.strictObject({ apiKey: z.string().min(1).max(512) }),
  response: { 200: sessionView, ...errors },
};
const readSchema = {
  operationId: 'getSession',
  summary: 'Say who is logged in',
  description: 'Of the session that the cookie names, or of the API key.',
  response: { 200: sessionView, ...errors },
};
const closeSchema = {
  operationId: 'closeSession',
  summary: 'Log out of the console',
  response: { 200: z.object({ closed: z.boolean() }), ...errors },
};

/** These decide by themselves who calls: a session is opened with any key, and read with any scope. */
export function sessionRoutes(app: App, { apiKeys, sessions }: Services): void {
  const config = { access: 'open' } as const;
  const failedLogins = new FailedLogins(systemClock);
  app.post('/v1/session', { schema: openSchema, config }, async (request, reply): Promise<SessionView> => {
    refuseForeignRequest(request.raw);
    const apiKey = openSchema.body.safeParse(request.body).data?.apiKey;
    if (apiKey === undefined) throw new RunError('validation', 'the body must be {"apiKey": "…"}');
    if (apiKeys.length === 0) return withoutKeys(request.headers);
    const key = findKey(apiKey, apiKeys);
    if (!key) throw failedLogins.refusal(request.ip);
    void reply.header('set-cookie', sessionCookie(await sessions.open(key.sha256), request.raw));
    return viewOf(key);
  });
  app.get('/v1/session', { schema: readSchema, config }, async ({ raw, headers }): Promise<SessionView> => {
    if (apiKeys.length === 0) return withoutKeys(headers);
    if (headers.authorization !== undefined) return viewOf(keyOfBearer(headers.authorization, apiKeys));
    return viewOf(await keyOfSession(raw, apiKeys, sessions));
  });
  app.delete('/v1/session', { schema: closeSchema, config }, async ({ raw }, reply) => {
    refuseForeignRequest(raw);
    const id = sessionIdOf(raw);
    if (id !== undefined) await sessions.close(id, apiKeys);
    void reply.header('set-cookie', sessionCookie('', raw));
    return { closed: id !== undefined };
  });
}

function viewOf({ tenant, scopes }: ApiKey): SessionView {
  return { tenant, scopes: scope.options.filter((name) => scopes.has(name)), keys: true };
}

function withoutKeys(headers: Parameters<typeof refuseForeignPages>[0]): SessionView {
  refuseForeignPages(headers);
  return { tenant: tenantWithoutKeys, scopes: scope.options, keys: false };
}
