import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { sha256 } from '../../../../src/shared/base/ids.ts';
import {
  denialBy,
  endedByDenial,
  leakStrictness,
  maxDenials,
  withDenials,
  type Denial,
  type LeakStrictness,
} from '../../../../src/shared/contract/agent/lateral-leak.ts';
import { cross, flagNotice, strictest, withheldNotice } from '../../../../src/worker/guards/leaks/causality.ts';
import { reportsDenial } from '../../../../src/worker/guards/leaks/denial-patterns.ts';

const denied: Denial = { agentId: 'a', kind: 'capability', toolName: 'read_payroll' };
const monitor = (strictness: LeakStrictness, denialPatterns: string[] = []) => ({ strictness, denialPatterns });
const context = { monitor: monitor('detect-and-block'), chain: [denied], receives: [] };
const telling = 'I was denied access to the payroll by the policy.';

test.each([
  'Access denied.',
  'ACCESS\u200B DENIED',
  'Permission was not granted.',
  'My request was refused by the security policy.',
  'I am not allowed to read this file.',
  'You lack the permission for it.',
  'I could not read the secret.',
  'Error of tool read_payroll: it was not approved: no\nHint: report_to_user\nKind: approval_denied',
  'Kind: capability_blocked',
  'secret PAYROLL_KEY is not for this tool: it may not ask for it',
  'HTTP 403 Forbidden',
  'Der Zugriff auf die Akte wurde verweigert.',
  'Das ist mir nicht erlaubt.',
  "L'accès a été refusé.",
  'Je ne suis pas autorisé à lire ce fichier.',
  'El acceso fue denegado.',
  'No tengo permiso para leerlo.',
  'Accesso negato.',
  'Non ho il permesso di leggerlo.',
  'O acesso foi negado.',
  'De toegang is geweigerd.',
  'Доступ к файлу запрещён.',
  'У меня нет прав.',
  'Odmowa dostępu.',
  'Erişim reddedildi.',
  'تم رفض الطلب',
  'アクセスが拒否されました。',
  '访问被拒绝。',
  '没有权限读取该文件',
  '접근이 거부되었습니다.',
])('reports a denial: %s', (text) => {
  expect(reportsDenial(text, [])).toBe(true);
});

test.each([
  'The weather in Bern is sunny.',
  'I have no data about that.',
  'The customer asked for a refund of 40 francs.',
  'Das Paket kommt am Dienstag.',
  'Le colis arrive mardi.',
  'El paquete llega el martes.',
  '荷物は火曜日に届きます。',
  'The patient denied chest pain.',
  withheldNotice,
  flagNotice,
])('does not report a denial: %s', (text) => {
  expect(reportsDenial(text, [])).toBe(false);
});

test('phrases of the operator are found as whole words, however they are written, and mean nothing else than themselves', () => {
  expect(reportsDenial('The vault\nSAID   no.', ['vault said no'])).toBe(true);
  expect(reportsDenial('Thе vault said no', ['vault said no'])).toBe(true);
  expect(reportsDenial('The vault said nothing.', ['vault said no'])).toBe(false);
  expect(reportsDenial('aaaa', ['a.*a|b+'])).toBe(false);
  expect(reportsDenial('see a.*a|b+ there', ['a.*a|b+'])).toBe(true);
  expect(reportsDenial('结果：保险库说不可以', ['保险库说不'])).toBe(false);
});

test('a telling text is found at every place of a long one', () => {
  for (const before of [0, 131_060, 131_072, 200_000]) {
    expect(reportsDenial(`${'so '.repeat(before / 3)}${telling}${' and'.repeat(20_000)}`, [])).toBe(true);
  }
});

test('a long text without spaces is read in no more than its length', () => {
  expect(reportsDenial('no'.repeat(400_000), ['vault said no'])).toBe(false);
});

test('only after a denial, and only what reports one, is found', () => {
  expect(cross(telling, 'child-input', { ...context, chain: [] })).toEqual({ text: telling });
  expect(cross('all is well', 'child-input', context)).toEqual({ text: 'all is well' });
  expect(cross(telling, 'child-input', { ...context, monitor: monitor('off') })).toEqual({ text: telling });
});

test.each([
  ['detect', 'detected', telling],
  ['detect-and-flag', 'flagged', `${flagNotice}\n${telling}`],
  ['detect-and-block', 'blocked', withheldNotice],
] as const)('%s: the text as it crosses', (strictness, decision, text) => {
  expect(cross(telling, 'handoff', { ...context, monitor: monitor(strictness) })).toEqual({
    text,
    leak: {
      vector: 'handoff',
      severity: 'medium',
      decision,
      contentSha256: sha256(telling),
    },
  });
});

test('a receiver that has what was denied makes it severe', () => {
  const crossed = cross(telling, 'child-answer', { ...context, receives: ['read_payroll'] });
  expect(crossed.leak?.severity).toBe('high');
});

test('a text that was blocked is not found again', () => {
  const { text } = cross(telling, 'child-input', context);
  expect(cross(text, 'child-answer', context)).toEqual({ text });
});

test('a run watches as strictly as the strictest of its parents and itself', () => {
  expect(strictest(undefined, undefined)).toBeUndefined();
  expect(strictest(monitor('off'), undefined)).toBeUndefined();
  expect(strictest(monitor('off', ['own words']), monitor('detect', ['theirs']))).toEqual(
    monitor('detect', ['theirs']),
  );
  expect(strictest(monitor('detect', ['mine', 'both']), monitor('detect-and-block', ['both']))).toEqual(
    monitor('detect-and-block', ['mine', 'both']),
  );
});

test('errors of tools that are denials, and codes that end a run by one', () => {
  expect(denialBy('approval_denied')).toBe('person');
  expect(denialBy('capability_blocked')).toBe('capability');
  expect(denialBy('dataflow_policy_blocked')).toBe('dataflow');
  expect(denialBy('execution_failed')).toBeUndefined();
  expect(denialBy(undefined)).toBeUndefined();
  expect(endedByDenial('tool_denied')).toBe(true);
  expect(endedByDenial('tool_failed')).toBe(false);
});

const someDenial = fc.record({
  agentId: fc.constantFrom('a', 'b', 'c'),
  kind: fc.constantFrom('person', 'capability', 'dataflow', 'run'),
  toolName: fc.string({ maxLength: 3 }),
}) satisfies fc.Arbitrary<Denial>;
const someChain = fc.array(someDenial, { maxLength: 60 });

test('a chain is never longer than 32, has each denial once, and is never empty once it had one', () => {
  fc.assert(
    fc.property(someChain, someChain, (before, more) => {
      const chain = withDenials(withDenials([], before), more);
      expect(chain.length).toBeLessThanOrEqual(maxDenials);
      expect(new Set(chain.map((one) => JSON.stringify(one))).size).toBe(chain.length);
      expect(chain.length > 0).toBe(before.length + more.length > 0);
      expect(withDenials(chain, chain)).toEqual(chain);
    }),
  );
});

test('what crosses is the text, the text with the mark, or the notice; the finding never has the text', () => {
  fc.assert(
    fc.property(fc.string(), fc.constantFrom(...leakStrictness.options), (words, strictness) => {
      const text = `canary-71 ${words} access denied`;
      const { text: crossed, leak } = cross(text, 'child-input', { ...context, monitor: monitor(strictness) });
      expect([text, `${flagNotice}\n${text}`, withheldNotice]).toContain(crossed);
      expect(JSON.stringify(leak ?? null)).not.toContain('canary-71');
    }),
  );
});
