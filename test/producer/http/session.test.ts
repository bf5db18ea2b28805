import { expect, test } from 'vitest';
import { sha256 } from '../../../src/shared/base/ids.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { ConsoleSessions, sessionTtlS } from '../../../src/shared/state/console-sessions.ts';
import { failuresAllowed } from '../../../src/producer/http/failed-logins.ts';
import { call } from '../../support/http.ts';
import { request } from '../cli/options/client.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

const apiKeys = [
  `${sha256('all')}:north:*`,
  `${sha256('looker')}:south:read`,
  `${sha256('decider')}:south:approve`,
].join(',');
const ownPage = { 'x-millrace-console': '1', 'sec-fetch-site': 'same-origin' };

/** Logs in and answers the cookie as a browser sends it. */
async function logIn({ send }: ServerWorld, apiKey: string): Promise<string> {
  const { status, headers } = await send('POST', '/v1/session', { apiKey }, ownPage);
  expect(status).toBe(200);
  return (headers.get('set-cookie') ?? '').split(';', 1)[0] ?? '';
}

test('a key becomes a session in a cookie that no script can read and no other site can send', async () => {
  const world = await serverWorld({ apiKeys });
  const { status, body, headers } = await world.send('POST', '/v1/session', { apiKey: 'looker' }, ownPage);
  expect([status, body]).toEqual([200, { tenant: 'south', scopes: ['read'], keys: true }]);
  const [pair = '', ...flags] = (headers.get('set-cookie') ?? '').split('; ');
  expect(pair).toMatch(new RegExp(`^millrace_session=${sha256('looker').slice(0, 8)}\\.[\\w-]{43}$`));
  expect(flags).toEqual(['Path=/', `Max-Age=${sessionTtlS}`, 'HttpOnly', 'SameSite=Strict']);
  expect(headers.get('cache-control')).toBe('no-store');
});

/** What proxies say of how the client came, the nearest one last. */
const forwarded = [
  ['https', true],
  ['HTTPS', true],
  ['https,http', true],
  [' https , http', true],
  ['http', false],
  ['http,https', false],
  ['', false],
] as const;

test.for(forwarded)(
  'a cookie for a client that came by "%s" through proxies is Secure: %s',
  async ([proto, isSecure]) => {
    const { send } = await serverWorld({ apiKeys });
    const headers = { ...ownPage, 'x-forwarded-proto': proto };
    const opened = await send('POST', '/v1/session', { apiKey: 'looker' }, headers);
    expect(opened.headers.get('set-cookie')?.includes('; Secure')).toBe(isSecure);
  },
);

test('Redis keeps the hash of a session and of its key, and both for twelve hours', async () => {
  const world = await serverWorld({ apiKeys });
  const cookie = await logIn(world, 'all');
  const id = cookie.split('=')[1] ?? '';
  const key = world.keys.sessions(sha256('all'));
  expect(await world.redis.zrange(key, '0', '-1')).toEqual([sha256(id)]);
  const ttlS = await world.redis.ttl(key);
  expect(ttlS).toBeGreaterThan(sessionTtlS - 60);
  expect(ttlS).toBeLessThanOrEqual(12 * 3_600);
  expect((await world.redis.keys(`${world.prefix}:*`)).filter((name) => name.includes(id))).toEqual([]);
});

test('a session may do what its key may, for its tenant only', async () => {
  const world = await serverWorld({ apiKeys });
  const [north, south] = [await logIn(world, 'all'), await logIn(world, 'looker')];
  const started = await world.send('POST', '/v1/runs', request, { cookie: north, ...ownPage });
  expect(started.status).toBe(202);
  const seen = (cookie: string) => world.send('GET', `/v1/runs/${started.body.runId}`, undefined, { cookie });
  expect((await seen(north)).status).toBe(200);
  expect((await seen(south)).status).toBe(404);
  const refused = await world.send('POST', '/v1/runs', request, { cookie: south, ...ownPage });
  expect([refused.status, refused.body.error.message]).toEqual([403, 'this API key lacks the scope write']);
});

test('who is logged in is told also to a key that may not read', async () => {
  const world = await serverWorld({ apiKeys });
  const cookie = await logIn(world, 'decider');
  const asked = await world.send('GET', '/v1/session', undefined, { cookie });
  expect([asked.status, asked.body]).toEqual([200, { tenant: 'south', scopes: ['approve'], keys: true }]);
  const bearer = await world.send('GET', '/v1/session', undefined, { authorization: 'Bearer looker' });
  expect(bearer.body.scopes).toEqual(['read']);
});

test('a wrong key opens no session, and no session is nobody', async () => {
  const { send } = await serverWorld({ apiKeys });
  const wrong = await send('POST', '/v1/session', { apiKey: 'wrong' }, ownPage);
  expect([wrong.status, wrong.body.error.code, wrong.headers.get('set-cookie')]).toEqual([401, 'unauthorized', null]);
  for (const body of [{}, { apiKey: 7 }, { apiKey: '' }, { apiKey: 'all', more: 1 }])
    expect((await send('POST', '/v1/session', body, ownPage)).status).toBe(400);
  const stranger = `millrace_session=${sha256('all').slice(0, 8)}.${'a'.repeat(43)}`;
  for (const cookie of ['', 'millrace_session=', stranger, 'other=1; millrace_session=*'])
    expect((await send('GET', '/v1/runs', undefined, { cookie })).status).toBe(401);
});

test('a session that was closed is over, and the browser forgets it', async () => {
  const world = await serverWorld({ apiKeys });
  const cookie = await logIn(world, 'all');
  const closed = await world.send('DELETE', '/v1/session', undefined, { cookie, ...ownPage });
  expect([closed.status, closed.body]).toEqual([200, { closed: true }]);
  expect(closed.headers.get('set-cookie')).toContain('millrace_session=; Path=/; Max-Age=0');
  expect((await world.send('GET', '/v1/runs', undefined, { cookie })).status).toBe(401);
});

test('a session ends with its key', async () => {
  const { keys, redis, send } = await serverWorld({ apiKeys });
  const sessions = new ConsoleSessions({ keys, clock: systemClock, reach: (work) => work(redis) });
  const cookie = `millrace_session=${await sessions.open(sha256('a key that was taken away'))}`;
  expect((await send('GET', '/v1/runs', undefined, { cookie })).status).toBe(401);
});

/** What pages of other origins can make a browser send, and what a page of the producer sends. */
const requests: readonly (readonly [what: string, method: string, headers: Record<string, string>, status: number])[] =
  [
    ['a change from the console', 'POST', ownPage, 202],
    ['a change from the console of an older browser', 'POST', { 'x-millrace-console': '1', origin: 'OWN' }, 202],
    ['a form of another site', 'POST', { origin: 'https://evil.example' }, 403],
    ['a form of another site in a new browser', 'POST', { 'sec-fetch-site': 'cross-site' }, 403],
    [
      'a change with the header from another origin',
      'POST',
      { 'x-millrace-console': '1', origin: 'https://evil.example' },
      403,
    ],
    ['a change from a sibling of the site', 'POST', { 'x-millrace-console': '1', 'sec-fetch-site': 'same-site' }, 403],
    ['a change without the header', 'POST', { 'sec-fetch-site': 'same-origin', origin: 'OWN' }, 403],
    ['a change without any sign of where it is from', 'POST', { 'x-millrace-console': '1' }, 403],
    ['a change that was typed', 'POST', { 'x-millrace-console': '1', 'sec-fetch-site': 'none' }, 403],
    ['a look from a sibling of the site', 'GET', { 'sec-fetch-site': 'same-site' }, 403],
    ['a look that was typed', 'GET', { 'sec-fetch-site': 'none' }, 200],
    ['a look from the console', 'GET', { 'sec-fetch-site': 'same-origin' }, 200],
  ];

test.for(requests)('with a session: %s', async ([, method, headers, status]) => {
  const world = await serverWorld({ apiKeys });
  const cookie = await logIn(world, 'all');
  const sent = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, value === 'OWN' ? world.url : value]),
  );
  const body = method === 'POST' ? request : undefined;
  expect((await world.send(method, '/v1/runs', body, { cookie, ...sent })).status).toBe(status);
});

test('another site can neither log a browser in nor out', async () => {
  const world = await serverWorld({ apiKeys });
  const cookie = await logIn(world, 'all');
  const foreign = { 'sec-fetch-site': 'cross-site', 'x-millrace-console': '1' };
  expect((await world.send('POST', '/v1/session', { apiKey: 'looker' }, foreign)).status).toBe(403);
  expect((await world.send('DELETE', '/v1/session', undefined, { cookie, ...foreign })).status).toBe(403);
  expect((await world.send('GET', '/v1/runs', undefined, { cookie })).status).toBe(200);
});

test('a key in the header needs no sign of the console, and counts before a cookie', async () => {
  const world = await serverWorld({ apiKeys });
  const cookie = await logIn(world, 'looker');
  const headers = { cookie, authorization: 'Bearer all' };
  expect((await world.send('POST', '/v1/runs', request, headers)).status).toBe(202);
});

test('without keys every page of this machine is the default tenant, and needs no session', async () => {
  const { send } = await serverWorld();
  const asked = await send('GET', '/v1/session');
  expect([asked.status, asked.body]).toEqual([
    200,
    { tenant: 'default', scopes: ['read', 'write', 'approve', 'admin'], keys: false },
  ]);
  const opened = await send('POST', '/v1/session', { apiKey: 'any' }, ownPage);
  expect([opened.status, opened.headers.get('set-cookie')]).toEqual([200, null]);
  const foreign = await send('GET', '/v1/session', undefined, { origin: 'https://evil.example' });
  expect(foreign.status).toBe(403);
});

test('after too many wrong keys an address is told when to try again, and a right key is let in all the same', async () => {
  const { send, url } = await serverWorld({ apiKeys });
  const tryKey = (apiKey: string) => send('POST', '/v1/session', { apiKey }, ownPage);
  for (let count = 0; count < failuresAllowed; count++) expect((await tryKey('wrong')).status).toBe(401);
  const limited = await tryKey('wrong');
  expect(limited.status).toBe(429);
  expect(limited.body.error).toMatchObject({ code: 'rate_limited', retryable: false });
  const retryAfterS = Number(limited.headers.get('retry-after'));
  expect(retryAfterS).toBeGreaterThan(0);
  expect(retryAfterS).toBeLessThanOrEqual(60);
  // An address may be that of a proxy, with everybody behind it.
  expect((await tryKey('looker')).status).toBe(200);
  expect((await tryKey('wrong')).status).toBe(429);
  expect((await call('GET', `${url}/v1/session`, undefined, { authorization: 'Bearer wrong' })).status).toBe(401);
});
