import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { clientWorld, codeOf, request } from '../../cli/options/client.ts';
import { serverWorld } from '../../http/server-world.ts';

/** A router that lists one model, until it has to fail. Counts what it is asked. */
async function router() {
  const state = { asked: 0, fails: false, url: '' };
  const server = createServer((_, response) => {
    state.asked += 1;
    response.statusCode = state.fails ? 500 : 200;
    response.end(JSON.stringify({ data: [{ id: 'listed', owned_by: 'acme' }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return state;
}

const withModel = (model: string) => ({ ...request, overrides: { model } });

test('without an allow-list and a router a request may name the models that agents use, and the refusal lists them', async () => {
  const { send, mill } = await serverWorld();
  await mill.registerAgents([{ id: 'support', model: 'own', models: ['own', 'fallback'], tools: [] }]);
  for (const model of ['own', 'fallback']) expect((await send('POST', '/v1/runs', withModel(model))).status).toBe(202);
  const { status, body } = await send('POST', '/v1/runs', withModel('whatever'));
  expect([status, body.error.code]).toEqual([422, 'model_not_allowed']);
  expect(body.error.message).toContain('allowed are fallback, own');
  expect(body.error.details).toMatchObject([{ path: 'overrides.model', allowed: ['fallback', 'own'] }]);
});

test('the model of a node is judged like that of a run, alone and among others', async () => {
  const { mill } = await clientWorld({ modelAllowlist: ['small'] });
  const node = (model: string) => ({ ...request, node: { id: 'n', type: 'llm', prompt_template: 'Answer.', model } });
  expect((await mill.enqueue(node('small'))).status).toBe('queued');
  expect(await codeOf(mill.enqueue(node('large')))).toBe('model_not_allowed');
  expect(await mill.enqueueMany([node('large'), node('small')])).toMatchObject([
    { error: { code: 'model_not_allowed', details: [{ path: 'node.model' }] } },
    { status: 'queued' },
  ]);
});

test('an allow-list with a star allows any model', async () => {
  const { mill } = await clientWorld({ modelAllowlist: ['*'] });
  expect((await mill.enqueue(withModel('whatever'))).status).toBe('queued');
});

test('with an allow-list only its models may be named; a request that names none is not concerned', async () => {
  const { mill } = await clientWorld({ modelAllowlist: ['small'] });
  expect((await mill.enqueue(withModel('small'))).status).toBe('queued');
  expect((await mill.enqueue(request)).status).toBe('queued');
  expect(await codeOf(mill.enqueue(withModel('large')))).toBe('model_not_allowed');
  expect((await mill.list()).runs).toHaveLength(2);
});

test('in bulk each request is judged for itself, with one question to the router', async () => {
  const catalogue = await router();
  const { mill } = await clientWorld({ modelAllowlist: ['small'], modelRouterUrl: catalogue.url });
  const models = ['small', 'listed', 'acme/listed', 'large'];
  const answers = await mill.enqueueMany(models.map(withModel));
  expect(answers.map((answer) => ('error' in answer ? answer.error.code : answer.status))).toEqual([
    'queued',
    'queued',
    'queued',
    'model_not_allowed',
  ]);
  expect(catalogue.asked).toBe(1);
});

test('while the router fails only the allow-list holds, and the refusal may be tried again', async () => {
  const catalogue = await router();
  catalogue.fails = true;
  const { send } = await serverWorld({ client: { modelAllowlist: ['small'], modelRouterUrl: catalogue.url } });
  const refused = await send('POST', '/v1/runs', withModel('listed'));
  expect([refused.status, refused.body.error]).toEqual([
    422,
    expect.objectContaining({
      code: 'model_not_allowed',
      retryable: true,
      details: [expect.objectContaining({ path: 'overrides.model' })],
    }),
  ]);
  expect((await send('POST', '/v1/runs', withModel('small'))).status).toBe(202);
  catalogue.fails = false;
  expect((await send('POST', '/v1/runs', withModel('listed'))).status).toBe(202);
  expect((await send('POST', '/v1/runs', withModel('large'))).body.error.retryable).toBe(false);
});
