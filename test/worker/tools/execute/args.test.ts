import { expect, test } from 'vitest';
import { Redactor } from '../../../../src/shared/base/redact.ts';
import {
  callSummary,
  fingerprint,
  maxArgsBytes,
  parseArgs,
  shownArgs,
} from '../../../../src/worker/tools/execute/args.ts';

const redactor = new Redactor(['hunter2-secret']);

test('text that is not JSON counts as no arguments', () => {
  expect(parseArgs('{bad')).toEqual({ kind: 'parsed', value: {} });
  expect(parseArgs('')).toEqual({ kind: 'parsed', value: {} });
});

test('arguments deeper than 64 levels are refused before they are parsed, brackets in strings do not count', () => {
  const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  expect(parseArgs(deep(64)).kind).toBe('parsed');
  expect(parseArgs(deep(65))).toEqual({ kind: 'refused', reason: expect.stringContaining('deeper than 64') as string });
  expect(parseArgs(JSON.stringify({ text: `"\\${'['.repeat(200)}` })).kind).toBe('parsed');
});

test('arguments over 256 KB are refused', () => {
  expect(parseArgs(`"${'x'.repeat(maxArgsBytes)}"`).kind).toBe('refused');
});

test('shown arguments hide secret-named fields and known secrets', () => {
  const value = { password: 'p', note: 'key hunter2-secret', list: [{ api_key: 'k', ok: 1 }] };
  expect(shownArgs(value, redactor)).toEqual({
    password: '[redacted]',
    note: 'key [redacted]',
    list: [{ api_key: '[redacted]', ok: 1 }],
  });
  expect(shownArgs('text', redactor)).toEqual({});
  expect(shownArgs([1], redactor)).toEqual({});
});

test('shown arguments are bounded', () => {
  expect(JSON.stringify(shownArgs({ text: 'x'.repeat(200_000) }, redactor)).length).toBeLessThan(20_000);
});

test('a summary is the name and the arguments, at most 200 characters', () => {
  expect(callSummary('look', { at: 'sky' })).toBe('look({"at":"sky"})');
  expect(callSummary('look', { at: 'x'.repeat(500) })).toHaveLength(200);
});

test('a fingerprint depends on tool and arguments and not on the way they are written', () => {
  const one = fingerprint('pay', '{"a": 1, "b": {"c": 2, "d": [1, 2]}}');
  expect(fingerprint('pay', '{"b":{"d":[1,2],"c":2},"a":1}')).toBe(one);
  expect(fingerprint('pay', '{"a":1,"b":{"c":2,"d":[2,1]}}')).not.toBe(one);
  expect(fingerprint('pay2', '{"a": 1, "b": {"c": 2, "d": [1, 2]}}')).not.toBe(one);
  expect(fingerprint('pay', '{"__proto__": 1}')).not.toBe(fingerprint('pay', '{}'));
});
