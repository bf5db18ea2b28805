import { expect, test } from 'vitest';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { mayHoldSecrets, withoutSecrets } from '../../../src/worker/jobs/archive/without-secrets.ts';

const value = 'pomegranate-4711-orange-0815';
const line = (content: string) => `J${JSON.stringify({ v: 1, t: 'tool_result', content })}`;
const names =
  'key apiKey api_key token accessToken secret clientSecret passwd password passphrase authorization Authorization bearer cookie Cookies credential credentials'.split(
    ' ',
  );

test.each(names)('a field %s is seen, also within a text', (name) => {
  const field = JSON.stringify({ [name]: value });
  for (const text of [`J${field}`, line(field)]) expect(mayHoldSecrets(text)).toBe(true);
});

test('what is seen is masked where the redactor knows it', () => {
  const masked = withoutSecrets(`J${JSON.stringify({ clientSecret: value, other: 1 })}`, new Redactor());
  expect(masked).not.toContain(value);
  expect(masked).toContain('"other":1');
});

test.each([
  ...['key', 'api_key', 'token', 'access_token', 'secret', 'password', 'sig', 'signature'].map(
    (name) => `https://example.com/?a=b&${name}=${value}`,
  ),
  `postgres://someone:${value}@example.com`,
  `Bearer ${value}`,
  `Basic cG9tZWdyYW5hdGU6b3Jhbmdl`,
  `sk-${value}`,
  `AIzaSyPomegranate4711Orange0815Lemon2342x`,
])('%s is seen', (text) => {
  expect(mayHoldSecrets(line(text))).toBe(true);
});

test.each(['The order was sent on Monday.', 'totalTokens 7', 'A sign in nature', 'keen', 'Take a seat: ask'])(
  '%s is no credential',
  (text) => expect(mayHoldSecrets(line(text))).toBe(false),
);
