import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { configArgs, fixedArgsIn, withoutFixedArgs } from '../../../src/worker/tools/configure.ts';
import { carriesSecret } from '../../../src/worker/guards/taint.ts';

const secret = 's3cr3t/wörd+"x"';
const secrets = [secret, 'short'];
const base64 = (text: string) => Buffer.from(text).toString('base64');

describe('a secret in arguments', () => {
  test.each<[what: string, value: unknown]>([
    ['alone', secret],
    ['in a text', `key=${secret}.`],
    ['deep in objects and lists', { a: [{ b: ['x', secret] }] }],
    ['as the name of a field', { [secret]: 1 }],
    ['URL-encoded', `https://x.example/?q=${encodeURIComponent(secret)}`],
    ['URL-encoded in lower case', encodeURIComponent(secret).toLowerCase()],
    ['as a form encodes it', new URLSearchParams({ q: secret }).toString()],
    ['with every character URL-encoded', [...Buffer.from(secret)].map((byte) => `%${byte.toString(16)}`).join('')],
    ['in base64', base64(secret)],
    ['in base64 for URLs', Buffer.from(secret).toString('base64url')],
    ['in base64 of something longer', base64(`user:${secret}:tail`)],
    ['in base64 of something else longer', base64(`ab${secret}`)],
    ['as JSON writes it', JSON.stringify({ x: secret })],
  ])('is found %s', (_, value) => {
    expect(carriesSecret(value, secrets)).toBe(true);
    expect(carriesSecret({ deep: [{ er: value }] }, secrets)).toBe(true);
  });

  test.each<[value: unknown]>([
    ['s3cr3t'],
    [{ a: 'short' }],
    [null],
    [17],
    [{ a: [true, 'short of s3cr3t'] }],
    ['%E0%A4%A'],
  ])('is not found in %j', (value) => expect(carriesSecret(value, secrets)).toBe(false));

  test('that is a number is found as a number', () => {
    expect(carriesSecret({ pin: 12345678 }, ['12345678'])).toBe(true);
  });

  test('cannot hide below the levels that are read', () => {
    let value: unknown = 'x';
    for (let level = 0; level < 80; level++) value = [value];
    expect(carriesSecret(value, secrets)).toBe(true);
    expect(carriesSecret(value, [])).toBe(false);
  });

  test('is found wherever it stands in base64, and ordinary text is not taken for one', () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 20 }),
        fc.string({ minLength: 6, maxLength: 40 }),
        fc.string({ maxLength: 20 }),
        (before, one, after) => {
          const wellFormed = one.toWellFormed();
          fc.pre(wellFormed.length >= 6);
          expect(carriesSecret(base64(before + wellFormed + after), [wellFormed])).toBe(true);
          expect(carriesSecret(before, [`${before}${wellFormed}`])).toBe(false);
        },
      ),
    );
  });
});

describe('arguments that the agent sets', () => {
  const args = {
    region: 'eu',
    retries: 3,
    on: true,
    none: null,
    token: { secret: 'CRM' },
    headers: { auth: { secret: 'CRM' }, x: 'y' },
  };

  test('get the values of their secrets, also one level down', () => {
    expect(configArgs(args, { get: (name) => (name === 'CRM' ? 'value' : undefined) })).toEqual({
      kind: 'ready',
      args: { region: 'eu', retries: 3, on: true, none: null, token: 'value', headers: { auth: 'value', x: 'y' } },
    });
  });

  test('block the call when a secret is not there, each named once', () => {
    expect(configArgs(args, { get: () => undefined })).toEqual({ kind: 'capability_blocked', missing: ['CRM'] });
  });

  test('are in the schema that the model sees neither as fields nor as needed', () => {
    const schema = {
      type: 'object',
      properties: { q: { type: 'string' }, token: { type: 'string' } },
      required: ['q', 'token'],
      dependentRequired: { q: ['token', 'x'], token: ['q'] },
      dependentSchemas: { token: {} },
      anyOf: [{ required: ['token'] }, { properties: { token: {}, q: {} } }, true],
      additionalProperties: false,
    };
    const before = structuredClone(schema);
    expect(withoutFixedArgs(schema, ['token'])).toEqual({
      type: 'object',
      properties: { q: { type: 'string' } },
      required: ['q'],
      dependentRequired: { q: ['x'] },
      dependentSchemas: {},
      anyOf: [{ required: [] }, { properties: { q: {} } }, true],
      additionalProperties: false,
    });
    expect(schema).toEqual(before);
    expect(withoutFixedArgs({ type: 'object' }, ['token'])).toEqual({ type: 'object' });
  });

  test('are found when the model sets them all the same', () => {
    expect(fixedArgsIn({ q: 1, token: 'x' }, ['token', 'region', 'toString'])).toEqual(['token']);
    expect(fixedArgsIn('text', ['length'])).toEqual([]);
  });
});
