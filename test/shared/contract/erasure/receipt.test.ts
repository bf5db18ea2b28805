import { expect, test } from 'vitest';
import { erasureKeyOf, noCounts, verifyReceipt } from '../../../../src/shared/contract/erasure/receipt.ts';

const key = erasureKeyOf(Buffer.alloc(32, 1).toString('base64'));
const { publicKey } = key.view;
const signed = key.sign({
  kind: 'millrace.erasure-receipt',
  v: 1,
  receiptId: 'r1',
  tenant: 'default',
  at: '2026-11-23T22:14:07.120Z',
  of: 'runs',
  metadataKeys: ['e\u0301'],
  runs: ['01K9Z5N3T8R6V2X4B7C1D0E9FG'],
  threads: [],
  erased: { ...noCounts },
  kept: { media: 0, files: 0 },
  unreadable: { count: 1, runs: ['01K9Z5N3T8R6V2X4B7C1D0E9FH'] },
});
const text = JSON.stringify(signed);

test('a receipt verifies whatever the order of its fields and the spaces between them', () => {
  const turned = Object.fromEntries(Object.entries(signed).toReversed());
  expect(verifyReceipt(JSON.parse(JSON.stringify(turned, null, 4)), publicKey)).toBe(true);
});

test.each([
  ['a value', ['"media":0', '"media":1']],
  ['another tenant', ['"tenant":"default"', '"tenant":"other"']],
  ['another form of the same letter', ['e\u0301', '\u00e9']],
  ['a field', ['"v":1', '"v":1,"note":"all"']],
  ['a field of the counts', ['"records":0', '"records":0,"backups":7']],
  ['a field of what was kept', ['"kept":{', '"kept":{"backups":7,']],
  ['a field of what is unreadable', ['"unreadable":{', '"unreadable":{"note":"all",']],
  ['a field with a name of the language', ['"records":0', '"records":0,"__proto__":{"a":1}']],
  ['something behind the signature', ['"signature":"', '"signature":"*']],
] as const)('a receipt that was changed after it was signed does not verify: %s', (_, [from, to]) => {
  expect(text).toContain(from);
  expect(verifyReceipt(JSON.parse(text), publicKey)).toBe(true);
  expect(verifyReceipt(JSON.parse(text.replace(from, to)), publicKey)).toBe(false);
});

test('no other digits of the same signature verify', () => {
  const digits = signed.signature.slice(0, -2);
  const last = digits.charCodeAt(digits.length - 1);
  const others = [...Array(3)].map((_, i) => `${digits.slice(0, -1)}${String.fromCharCode(last + i + 1)}==`);
  const same = others.filter((other) => Buffer.from(other, 'base64').equals(Buffer.from(signed.signature, 'base64')));
  expect(same).not.toEqual([]);
  for (const signature of same) expect(verifyReceipt({ ...signed, signature }, publicKey)).toBe(false);
});
