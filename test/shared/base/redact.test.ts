import { expect, test } from 'vitest';
import { rounds } from '../../support/lane.ts';
import { seeded } from '../../support/seeded.ts';
import { findSecretKey, isSecretName, Redactor } from '../../../src/shared/base/redact.ts';

const secret = 's3cr3t/wörd+"x" y';

test.each<[what: string, text: string]>([
  ['as it is', secret],
  ['URL-encoded', encodeURIComponent(secret)],
  ['URL-encoded in lower case', encodeURIComponent(secret).replaceAll(/%../g, (byte) => byte.toLowerCase())],
  ['as a form encodes it', new URLSearchParams({ q: secret }).toString().slice(2)],
  ['in base64', Buffer.from(secret).toString('base64')],
  ['in base64 for URLs', Buffer.from(secret).toString('base64url')],
  ['as JSON writes it', JSON.stringify(secret).slice(1, -1)],
])('a secret is taken out of a text %s', (_, form) => {
  const clean = new Redactor([secret]).secrets(`before ${form} after`);
  expect(clean).toMatch(/^before \[redacted\]=* after$/);
});

test('a secret that holds another one is taken out as a whole', () => {
  expect(new Redactor(['abcdef', 'abcdefghij']).secrets('x abcdefghij y')).toBe('x [redacted] y');
});

test('a secret in base64 of something longer leaves no more than its two ends', () => {
  for (const before of ['', 'u', 'us', 'user:']) {
    const text = Buffer.from(`${before}${secret}tail`).toString('base64');
    const clean = new Redactor([secret]).secrets(text);
    expect(clean).toContain('[redacted]');
    expect(Buffer.from(clean.split('[redacted]')[1] ?? '', 'base64').toString()).not.toContain('wörd');
  }
});

const secretNames =
  'apiKey api_key api-key API_KEY apikey X-API-Key Authorization proxy-authorization password dbPassword passwd ' +
  'passphrase secret clientSecret client_secret AWS_SECRET_ACCESS_KEY accessToken refresh_token authToken bearerToken ' +
  'sessionToken idToken OPENAI_API_KEY openaiApiKey privateKey private_key cookie set-cookie bearer credentials ' +
  'accessKey secretKey webhookSecret';
const plainNames =
  'tokens token maxTokens pageToken keyword key publicKey primaryKey monkey secretary secrets passwordHint ' +
  'cookieConsent author authorId bearerOf customer idempotencyKey sortKey tokensIn';

test.each(secretNames.split(' '))('a field called %s holds a credential', (name) =>
  expect(isSecretName(name)).toBe(true),
);
test.each(plainNames.split(' '))('a field called %s holds none', (name) => expect(isSecretName(name)).toBe(false));

test.each<[value: unknown, path: string | undefined]>([
  [{ metadata: { apiKey: 'x' } }, 'metadata.apiKey'],
  [{ node: { inputs: { list: [{ db_password: 'x' }] } } }, 'node.inputs.list.0.db_password'],
  [{ password: 1234 }, 'password'],
  [{ apiKeys: ['x'] }, 'apiKeys'],
  [{ credentials: { clientSecret: 'x' } }, 'credentials.clientSecret'],
  [{ password: '' }, undefined],
  [{ password: null, secret: [], cookie: true }, undefined],
  [{ output_schema: { properties: { password: { type: 'string' } }, required: ['password'] } }, undefined],
  [{ input: 'apiKey: x' }, undefined],
])('the credential of %j is at %s', (value, path) => {
  expect(findSecretKey(value)).toBe(path);
});

test.each([
  ['one secret', ['Canary+of/the=mine']],
  ['one that repeats itself', ['ababababab']],
  ['secrets that overlap', ['abcdefgh', 'efghijkl', 'cdefghijklmnop']],
])('%s that is split over pieces in any way is taken out, and nothing else is', (_, secrets) => {
  const random = seeded();
  const redactor = new Redactor(secrets);
  const alphabet = [...secrets, ...secrets.map((one) => one.slice(0, -1)), ...secrets.join('').split(''), ' '];
  for (let round = 0; round < rounds({ fast: 300, all: 3_000 }); round++) {
    const text = Array.from({ length: 1 + random.below(12) }, () => alphabet[random.below(alphabet.length)]).join('');
    const stream = redactor.stream();
    let shown = '';
    for (let at = 0, to = 0; at < text.length; at = to) {
      to = at + 1 + random.below(5);
      shown += stream.push(text.slice(at, to));
    }
    shown += stream.end();
    expect(shown, text).toBe(redactor.secrets(text));
    for (const secret of secrets) expect(shown).not.toContain(secret);
  }
});

test('a text in pieces is held back no longer than it may become a secret', () => {
  const stream = new Redactor(['abcdef']).stream();
  expect(['xyz', 'ab', 'cq', 'abcde'].map((piece) => stream.push(piece))).toEqual(['xyz', '', 'abcq', '']);
  expect(stream.end()).toBe('abcde');
});

test('a secret that was learned later is taken out, and of many the newest are known', () => {
  const redactor = new Redactor(['given-at-start']);
  redactor.learn(['learned-first']);
  expect(redactor.secrets('given-at-start learned-first')).toBe('[redacted] [redacted]');
  redactor.learn(Array.from({ length: 1_000 }, (_, index) => `renewed-${index}-key`));
  expect(redactor.secrets('given-at-start learned-first renewed-999-key')).toBe('[redacted] learned-first [redacted]');
});

test.each([
  ['with slashes escaped', '\\/w'],
  ['with everything beyond ASCII escaped', 'w\\u00f6rd'],
])('a secret that a JSON writer wrote %s is taken out', (_, part) => {
  const ascii = JSON.stringify(secret).slice(1, -1).replaceAll('ö', '\\u00f6');
  const text = part.startsWith('\\/') ? JSON.stringify(secret).replaceAll('/', '\\/') : ascii;
  expect(text).toContain(part);
  expect(new Redactor([secret]).secrets(text)).not.toContain('s3cr3t');
});
