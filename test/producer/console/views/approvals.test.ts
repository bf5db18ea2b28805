import { expect, test } from 'vitest';
import { draftOf, problemsIn } from '../../../../src/producer/console/forms/draft.ts';
import { decisionOf } from '../../../../src/producer/console/views/approvals/decide.ts';
import {
  accountOf,
  askedIn,
  hindrance,
  linesBetween,
  spread,
} from '../../../../src/producer/console/views/approvals/words.ts';
import type { ApprovalView } from '../../../../src/shared/contract/approvals.ts';

const item = (more: Partial<ApprovalView>): ApprovalView => ({
  kind: 'approval',
  runId: 'r',
  agent: 'a',
  toolCallId: 'c',
  toolName: 'pay',
  requestedAt: '2026-01-01T00:00:00.000Z',
  votes: [],
  href: '/v1/runs/r',
  ...more,
});

test('arguments are only sent when they were changed, and a reason only when there is one', () => {
  const draft = draftOf({ amount: 5, to: 'kim' }, undefined);
  const grant = (value: unknown, reason = '') =>
    decisionOf(item({}), { kind: 'grant', draft: { ...draft, value }, reason });
  expect(grant({ to: 'kim', amount: 5 })).toEqual({ approvals: [{ toolCallId: 'c', granted: true }] });
  expect(grant({ to: 'kim', amount: 6 }, ' half ')).toEqual({
    approvals: [{ toolCallId: 'c', granted: true, updatedArgs: { to: 'kim', amount: 6 }, reason: 'half' }],
  });
  expect(decisionOf(item({}), { kind: 'deny', reason: ' ' })).toEqual({
    approvals: [{ toolCallId: 'c', granted: false }],
  });
  expect(decisionOf(item({}), { kind: 'answer', text: 'blue' })).toEqual({
    answers: [{ toolCallId: 'c', answer: 'blue' }],
  });
  expect(decisionOf(item({}), { kind: 'topUp', usd: 2, key: 'k' })).toEqual({ budget: { topUpUsd: 2 } });
  expect(decisionOf(item({}), { kind: 'reject', reason: 'enough' })).toEqual({ budget: 'reject', reason: 'enough' });
});

test('what the model gave is not checked, what a person gives is, and a mask is never sent back', () => {
  const schema = { type: 'object', properties: { amount: { type: 'number' } } };
  const draft = draftOf({ amount: 'many', key: '[redacted]' }, schema);
  expect(problemsIn(draft).size).toBe(0);
  const edited = { ...draft, value: { amount: 'few', key: '[redacted]' } };
  expect([...problemsIn(edited).keys()].sort()).toEqual(['amount', 'key']);
  const typed = { ...draft, broken: new Map([['amount', 'must be a number']]) };
  expect(problemsIn(typed).get('amount')).toBe('must be a number');
});

test('a session sees why it may not decide', () => {
  const money = item({ kind: 'budget', id: 'tenant:acme' });
  const may = (scopes: readonly string[]) => (scope: string) => scopes.includes(scope);
  expect(hindrance(item({}), may(['read']))).toContain('approve');
  expect(hindrance(item({}), may(['approve']))).toBeUndefined();
  expect(hindrance(money, may(['approve']))).toContain('admin');
  expect(hindrance(item({ kind: 'budget', id: 'batch:nightly' }), may(['approve']))).toBeUndefined();
  expect(accountOf({ id: 'batch:a:b' })).toEqual({ scope: 'batch', name: 'a:b' });
});

test('an item says what is asked', () => {
  expect(askedIn(item({}))).toBe('Call pay');
  expect(askedIn(item({ mode: 'deferred' }))).toBe('Carry out pay');
  expect(askedIn(item({ kind: 'unknown_outcome' }))).toBe('Did pay take effect?');
});

test('two texts are compared line by line', () => {
  const shown = linesBetween('a\nb\nc', 'a\nx\nc\nd').map(({ sign, text }) => sign + text);
  expect(shown).toEqual([' a', '-b', '+x', ' c', '+d']);
  expect(linesBetween('', 'a')).toEqual([{ sign: '+', text: 'a' }]);
  const long = Array.from({ length: 500 }, (_, at) => `${at}`).join('\n');
  expect(linesBetween(long, long)).toHaveLength(1_000);
  expect(spread('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(spread('{"a":1')).toBe('{"a":1');
});
