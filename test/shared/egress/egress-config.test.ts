import { expect, test } from 'vitest';
import { parseConfig } from '../../../src/shared/contract/config.ts';

test('hosts are read in lower case, without empty entries', () => {
  const env = {
    EGRESS_ALLOWED_HOSTS: ' DB.internal, 10.0.0.7:8080 ,[FD00::7]:80,fd00::8,,localhost:1',
    EGRESS_DOMAINS: 'API.example.com',
  };
  expect(parseConfig(env)).toMatchObject({
    EGRESS_ALLOWED_HOSTS: ['db.internal', '10.0.0.7:8080', '[fd00::7]:80', 'fd00::8', 'localhost:1'],
    EGRESS_DOMAINS: ['api.example.com'],
  });
});

test('without them there are no allowed hosts, and any domain may be asked', () => {
  const config = parseConfig({ EGRESS_DOMAINS: ' , ' });
  expect(config.EGRESS_ALLOWED_HOSTS).toEqual([]);
  expect(config.EGRESS_DOMAINS).toBeUndefined();
  expect(config.MILLRACE_FILES).toBeUndefined();
});

test.each([
  'https://a.example',
  '*.example.com',
  '10.0.0.0/8',
  'a.example/path',
  'a.example:',
  'a b',
  '.a.example',
  '*',
])('%s is no host: it would never match', (text) => {
  for (const name of ['EGRESS_ALLOWED_HOSTS', 'EGRESS_DOMAINS'])
    expect(() => parseConfig({ [name]: `fine.example,${text}` })).toThrow(new RegExp(`${name}.*must be hosts like`));
});

test('a folder that is not there is reported at the start', () => {
  expect(() => parseConfig({ MILLRACE_FILES: import.meta.filename })).toThrow(/MILLRACE_FILES: there is no folder/);
  expect(parseConfig({ MILLRACE_FILES: import.meta.dirname }).MILLRACE_FILES).toBe(import.meta.dirname);
});
