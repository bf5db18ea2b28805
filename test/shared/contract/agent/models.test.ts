import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  createModelCatalogue,
  getModels,
  resolveChatModel,
  resolveRouterBaseUrl,
  validateChatModelId,
} from '../../../../src/shared/contract/agent/models.ts';

const listed = {
  data: [{ id: 'm1' }, { id: 'm2', owned_by: 'acme' }, { id: 'm3', provider: 'other', owned_by: null }],
};

interface Router {
  readonly url: string;
  readonly paths: string[];
  answer: RequestListener;
  close(): Promise<void>;
}

/** A router on a free port that answers as given and counts. */
async function router(
  answer: RequestListener = (_, response) => response.end(JSON.stringify(listed)),
): Promise<Router> {
  const server = createServer((request, response) => {
    made.paths.push(request.url ?? '');
    made.answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(close);
  const made: Router = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    paths: [],
    answer,
    close,
  };
  return made;
}

const silence: RequestListener = () => {};
const status =
  (code: number): RequestListener =>
  (_, response) =>
    response.writeHead(code, code === 302 ? { location: '/elsewhere' } : {}).end('no');

describe('resolveChatModel', () => {
  const from = (...models: (string | undefined)[]) => models.map((model, index) => ({ model, source: `${index}` }));

  test.each([
    [['', '  ', 'm2', 'm3'], { model: 'm2', source: '2' }],
    [[undefined, ' m1 '], { model: 'm1', source: '1' }],
    [['', ' ', undefined], { model: 'last', source: 'fallback' }],
    [[], { model: 'last', source: 'fallback' }],
  ])('of %j it takes the first that is not blank', (models, expected) => {
    expect(resolveChatModel(from(...models), 'last')).toEqual(expected);
  });
});

test.each(['http://x', 'http://x/', 'http://x/v1', 'http://x/v1/', ' http://x/v1// '])(
  '%j is the router http://x',
  (url) => {
    expect(resolveRouterBaseUrl(url)).toBe('http://x');
  },
);

test('a path before /v1 belongs to the router', () => {
  expect(resolveRouterBaseUrl('http://x/llm/v1/')).toBe('http://x/llm');
});

describe('getModels', () => {
  test('reads the list under /v1/models, whichever way the address ends', async () => {
    const { url, paths } = await router();
    for (const end of ['', '/', '/v1', '/v1/']) {
      expect(await getModels(url + end)).toEqual([
        { id: 'm1' },
        { id: 'm2', provider: 'acme' },
        { id: 'm3', provider: 'other' },
      ]);
    }
    expect(new Set(paths)).toEqual(new Set(['/v1/models']));
  });

  test.each([500, 404, 401, 302])('throws when the answer is %i', async (code) => {
    const { url, paths } = await router(status(code));
    await expect(getModels(url)).rejects.toMatchObject({
      code: 'provider_unavailable',
      message: expect.stringContaining(String(code)),
    });
    expect(paths).toEqual(['/v1/models']);
  });

  test.each([
    ['no JSON', 'hello'],
    ['no list', '{"models":[]}'],
    ['a model without an id', '{"data":[{"name":"m1"}]}'],
    ['an empty body', ''],
  ])('throws for %s', async (_what, body) => {
    const { url } = await router((_, response) => response.end(body));
    await expect(getModels(url)).rejects.toMatchObject({ code: 'provider_unavailable' });
  });

  test('throws when there is no server, and when it stays silent', async () => {
    const down = await router();
    await down.close();
    await expect(getModels(down.url)).rejects.toMatchObject({ code: 'provider_unavailable' });
    const silent = await router(silence);
    await expect(getModels(silent.url, { timeoutMs: 20 })).rejects.toMatchObject({ code: 'provider_unavailable' });
  });

  test('the deadline holds for the whole answer, not for its beginning', async () => {
    const { url } = await router((_, response) => void response.write('{"data":['));
    await expect(getModels(url, { timeoutMs: 50 })).rejects.toMatchObject({ code: 'provider_unavailable' });
  });

  test('does not read on in an answer that never ends', async () => {
    const line = Buffer.alloc(256 * 1024, ' ');
    const gone = Promise.withResolvers<void>();
    const { url } = await router((_, response) => {
      response.on('close', () => gone.resolve());
      const more = () => {
        while (!response.destroyed && response.write(line));
      };
      response.on('drain', more);
      more();
    });
    await expect(getModels(url)).rejects.toMatchObject({ message: expect.stringContaining('4 MiB') });
    await gone.promise;
  });
});

describe('validateChatModelId', () => {
  test.each([
    ['nothing', undefined],
    ['a number', 7],
    ['an object', { model: 'm1' }],
    ['an empty name', ''],
    ['a blank name', ' \t'],
    ['a name with a space', 'my model'],
    ['a name with a line break', 'm1\nm2'],
    ['a name with other letters', 'modèle'],
    ['a name of 201 characters', 'm'.repeat(201)],
  ])('refuses %s as malformed without asking anybody', async (_what, id) => {
    const { url, paths } = await router();
    expect(await validateChatModelId(id, { routerBaseUrl: url, allowlist: [] })).toMatchObject({
      ok: false,
      reason: 'malformed',
      retryable: false,
    });
    expect(paths).toEqual([]);
  });

  test('accepts a name of 200 characters and all the signs that names have, trimmed', async () => {
    const { url } = await router((_, response) =>
      response.end(JSON.stringify({ data: [{ id: 'm'.repeat(200) }, { id: 'Org/m-1.5_x@v2:free' }] })),
    );
    for (const model of ['m'.repeat(200), 'Org/m-1.5_x@v2:free'])
      expect(await validateChatModelId(` ${model} `, { routerBaseUrl: url })).toEqual({ ok: true, model });
  });

  test('a name of the allow-list is accepted while the router is down', async () => {
    const down = await router();
    await down.close();
    const rules = { allowlist: ['m9'], routerBaseUrl: down.url };
    expect(await validateChatModelId('m9', rules)).toEqual({ ok: true, model: 'm9' });
    expect(await validateChatModelId('m1', rules)).toMatchObject({ reason: 'catalogue_unreachable', retryable: true });
    expect(down.paths).toEqual([]);
  });

  test.each([
    ['m1', true],
    ['m2', true],
    ['acme/m2', true],
    ['other/m3', true],
    ['acme/m1', false],
    ['undefined/m1', false],
    ['m4', false],
    ['M1', false],
  ])('%s in the catalogue: %s', async (model, ok) => {
    const { url } = await router();
    const verdict = await validateChatModelId(model, { allowlist: ['m9'], routerBaseUrl: url });
    expect(verdict).toMatchObject(ok ? { ok: true, model } : { ok: false, reason: 'not_listed', retryable: false });
  });

  test.each([500, 302])('a router that answers %i allows nothing', async (code) => {
    const { url } = await router(status(code));
    expect(await validateChatModelId('m1', { routerBaseUrl: url })).toMatchObject({ reason: 'catalogue_unreachable' });
  });

  test('without a router only the allow-list counts', async () => {
    expect(await validateChatModelId('m1', { allowlist: ['m2'] })).toMatchObject({ reason: 'not_listed' });
    expect(await validateChatModelId('m1')).toMatchObject({ reason: 'not_listed' });
  });
});

describe('a catalogue', () => {
  function catalogueOf({ url }: Router, more: { timeoutMs?: number } = {}) {
    const clock = { now: 0 };
    const catalogue = createModelCatalogue({ base: url, ttlMs: 1_000, now: () => clock.now, ...more });
    const allows = async (model: string) => (await validateChatModelId(model, { catalogue })).ok;
    return { clock, catalogue, allows };
  }

  test('is asked once while its copy is fresh, and again afterwards', async () => {
    const up = await router();
    const { clock, allows } = catalogueOf(up);
    expect([await allows('m1'), await allows('m2'), await allows('nope')]).toEqual([true, true, false]);
    clock.now = 999;
    expect(await allows('m1')).toBe(true);
    expect(up.paths).toHaveLength(1);
    clock.now = 1_000;
    expect(await allows('m1')).toBe(true);
    expect(up.paths).toHaveLength(2);
  });

  test('a fresh copy answers for a router that is down, an old one does not', async () => {
    const up = await router();
    const { clock, allows } = catalogueOf(up);
    expect(await allows('m1')).toBe(true);
    await up.close();
    clock.now = 999;
    expect(await allows('m1')).toBe(true);
    clock.now = 1_000;
    expect(await allows('m1')).toBe(false);
  });

  test('what fails is not remembered', async () => {
    const up = await router(status(500));
    const { allows } = catalogueOf(up);
    expect(await allows('m1')).toBe(false);
    up.answer = (_, response) => response.end(JSON.stringify(listed));
    expect(await allows('m1')).toBe(true);
  });

  test('many who ask at once share one request, and its failure', async () => {
    const asked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const up = await router((_, response) => {
      asked.resolve();
      void release.promise.then(() => status(500)(_, response));
    });
    const { catalogue } = catalogueOf(up);
    const all = Array.from({ length: 20 }, () => catalogue.models().catch((error: { code: string }) => error.code));
    await asked.promise;
    release.resolve();
    expect(new Set(await Promise.all(all))).toEqual(new Set(['provider_unavailable']));
    expect(up.paths).toHaveLength(1);
  });

  test('the age of a copy counts from the request', async () => {
    const clock = { now: 0 };
    const up = await router((_, response) => {
      clock.now = 900;
      response.end(JSON.stringify(listed));
    });
    const catalogue = createModelCatalogue({ base: up.url, ttlMs: 1_000, now: () => clock.now });
    await catalogue.models();
    clock.now = 1_000;
    await catalogue.models();
    expect(up.paths).toHaveLength(2);
  });
});
