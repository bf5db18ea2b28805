import { expect, test } from 'vitest';
import { read, saidBy } from './support.ts';

const endpoint = '/v1/responses' as const;

function line(about: Record<string, unknown>): string {
  return JSON.stringify({
    custom_id: 'a',
    method: 'POST',
    url: endpoint,
    body: { model: 'support', input: 'Hi' },
    ...about,
  });
}

test('a line of OpenAI asks the agent that is its model', async () => {
  const lines = await read(`${line({})}\n${line({ custom_id: 'b' })}\n`, { endpoint, defaults: { priority: 3 } });
  expect(lines).toMatchObject([
    { line: 1, id: 'a', kind: 'request', request: { agent: 'support', input: 'Hi', priority: 3 } },
    { line: 2, id: 'b', kind: 'request' },
  ]);
});

test.each([
  ['{', 'invalid_json_line', 'is no JSON object'],
  [line({ custom_id: '' }), 'missing_required_parameter', 'needs a custom_id'],
  [line({ custom_id: undefined }), 'missing_required_parameter', 'needs a custom_id'],
  [line({ method: 'GET' }), 'invalid_method', 'needs method POST'],
  [line({ url: '/v1/chat/completions' }), 'invalid_url', 'needs the url of its batch, /v1/responses'],
  [line({ body: undefined }), 'missing_required_parameter', 'needs a body'],
  [line({ body: 'text' }), 'missing_required_parameter', 'needs a body'],
])('the line %.60s is refused as %s, and the next is not', async (text, reason, problem) => {
  const [bad, good] = await read(`${text}\n${line({ custom_id: 'b' })}\n`, { endpoint });
  expect(bad).toMatchObject({ kind: 'bad', error: { code: 'validation', reason } });
  expect(saidBy(bad)).toContain(problem);
  expect(good).toMatchObject({ id: 'b', kind: 'request' });
});

test('a custom_id that an earlier line has is refused', async () => {
  const lines = await read(`${line({})}\n${line({ body: { model: 'other', input: 'x' } })}\n`, { endpoint });
  expect(lines).toMatchObject([
    { kind: 'request' },
    { id: 'a', kind: 'bad', error: { reason: 'duplicate_custom_id', details: { param: 'custom_id' } } },
  ]);
});

test('the key of a line follows from its custom_id', async () => {
  const [first] = await read(line({}), { endpoint });
  const [same] = await read(line({ body: { model: 'support', input: 'Other' } }), { endpoint });
  const [other] = await read(line({ custom_id: 'b' }), { endpoint });
  expect(same?.key).toBe(first?.key);
  expect(other?.key).not.toBe(first?.key);
});

test('a body that the endpoint would refuse is refused with the name of the field', async () => {
  const bodies = [
    [{ model: 'support' }, 'input'],
    [{ model: 'support', input: 'Hi', stream: true }, 'stream'],
    [{ model: 'support', input: 'Hi', previous_response_id: 'resp_1' }, 'previous_response_id'],
    [{ input: 'Hi' }, 'model'],
  ] as const;
  const content = bodies.map(([body], index) => line({ custom_id: `${index}`, body })).join('\n');
  const lines = await read(content, { endpoint });
  const params = lines.map((bad) => (bad.kind === 'bad' ? bad.error.details : 'request'));
  expect(params).toEqual(bodies.map(([, param]) => ({ param })));
});
