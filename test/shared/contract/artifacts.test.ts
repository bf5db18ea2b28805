import { expect, test } from 'vitest';
import { parseConfig } from '../../../src/shared/contract/config.ts';

const storeOf = (text: string) => parseConfig({ ARTIFACT_STORE: text }).ARTIFACT_STORE;

test('without a setting it is Redis', () => {
  expect(parseConfig({}).ARTIFACT_STORE).toEqual({ kind: 'redis' });
});

test.each([
  ['redis', { kind: 'redis' }],
  ['file:/var/lib/millrace', { kind: 'folder', root: '/var/lib/millrace' }],
  ['file:///var/lib/millrace/', { kind: 'folder', root: '/var/lib/millrace' }],
  ['s3://results', { kind: 's3', bucket: 'results', prefix: '' }],
  ['s3://results/a/b/', { kind: 's3', bucket: 'results', prefix: 'a/b' }],
  [
    's3://results/a?endpoint=http://minio:9000&region=eu-central-1',
    { kind: 's3', bucket: 'results', prefix: 'a', endpoint: 'http://minio:9000', region: 'eu-central-1' },
  ],
])('%s is understood', (text, store) => {
  expect(storeOf(text)).toEqual(store);
});

test.each([
  ['disk', 'must be redis, file:/path or s3://bucket/prefix'],
  ['file:results', 'must name an absolute folder'],
  ['file:', 'must name an absolute folder'],
  ['file://host/results', 'must name an absolute folder'],
  ['file:/', 'must name a folder of its own'],
  ['s3://', 'must be s3://bucket/prefix'],
  ['s3://UPPER/x', 'must be s3://bucket/prefix'],
  ['s3://key:secret@results', 'must hold no credentials'],
  ['s3://results/a%2fb', 'must have a prefix of letters'],
  ['s3://results?endpoint=minio', 'must name an http:// or https:// endpoint'],
  ['s3://results?accessKey=x', 'takes the parameters endpoint and region'],
])('%s is refused with what is wrong', (text, problem) => {
  expect(() => storeOf(text)).toThrow(`ARTIFACT_STORE: ${problem}`);
});

test('every problem is reported at once', () => {
  const env = { ARTIFACT_STORE: 'disk', ARTIFACT_MAX_BYTES: '100', ARTIFACT_RUN_MAX_BYTES: '99', PORT: 'x' };
  for (const name of ['ARTIFACT_RUN_MAX_BYTES', 'ARTIFACT_STORE', 'PORT'])
    expect(() => parseConfig(env)).toThrow(new RegExp(`^ {2}${name}: `, 'm'));
});

test('a bound for one body alone has to be under the default for a run', () => {
  expect(() => parseConfig({ ARTIFACT_MAX_BYTES: String(65 * 1024 ** 2) })).toThrow(
    'ARTIFACT_RUN_MAX_BYTES: must be at least ARTIFACT_MAX_BYTES',
  );
});
