import { execFileSync } from 'node:child_process';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { curlOf, literalOf, typescriptOf } from '../../../../src/producer/console/views/run/record/copy-as.ts';

const odd = `It's "7"\nor \\ $HOME \`id\` \u2028 ünï`;

test('a shell reads from the command exactly what was asked, and the key from its environment', () => {
  const command = curlOf({ agent: 'support', input: odd }, 'http://127.0.0.1:8080');
  const script = `curl() { for word in "$@"; do printf '%s\\0' "$word"; done; }\n${command}`;
  const env = { PATH: process.env['PATH'] ?? '', MILLRACE_API_KEY: 'key-1' };
  const words = execFileSync('sh', ['-c', script], { encoding: 'utf8', env }).split('\0');
  expect(words).toContain('http://127.0.0.1:8080/v1/runs');
  expect(words).toContain('authorization: Bearer key-1');
  expect(JSON.parse(words[words.indexOf('-d') + 1] ?? '')).toEqual({ agent: 'support', input: odd });
});

test('the source of a value is that value', () => {
  const value = { a: odd, 'b-c': [1, true, null, { __proto__: null, d: [] }], e: {}, 'it’s': "'" };
  expect(runInNewContext(`(${literalOf(value)})`)).toEqual({
    a: odd,
    'b-c': [1, true, null, { d: [] }],
    e: {},
    'it’s': "'",
  });
});

test('the module asks the producer that the page is of', () => {
  const source = typescriptOf({ agent: 'support', input: 'Hello' }, 'https://mill.example');
  expect(source).toContain("url: 'https://mill.example'");
  expect(source).toContain("mill.enqueue({\n  agent: 'support',\n  input: 'Hello',\n})");
});
