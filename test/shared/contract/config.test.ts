import { expect, test } from 'vitest';
import { parseConfig } from '../../../src/shared/contract/config.ts';

const key = 'sk-of-somebody-0123456789';

test.each([
  ['MILLRACE_PROVIDERS', `[{"id":"x","apiKey":"plain-words"}]`, 'file'],
  ['MILLRACE_PROVIDERS', key, 'file'],
  ['MILLRACE_TENANTS', `acme:\n  key: plain-words`, 'file'],
  ['MILLRACE_SECRETS', `OPENAI_API_KEY=plain-words`, 'folder'],
  ['MILLRACE_SCRIPT', key, 'file'],
])('%s with what belongs into the file says so, and does not repeat it (%#)', (name, value, what) => {
  const read = () => parseConfig({ [name]: value });
  expect(read).toThrow(`${name}: must be the path of a ${what}, not what is in it`);
  expect(read).not.toThrow(/plain-words|sk-of/);
});

test('a path that leads nowhere is named', () => {
  const path = './no where/providers.yaml';
  expect(() => parseConfig({ MILLRACE_PROVIDERS: path })).toThrow(`MILLRACE_PROVIDERS: there is no file ${path}`);
});
