import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { policyAction, policyRule, policySubject, type PolicyRule } from '../../../src/shared/contract/agent/policy.ts';
import { matchesGlob, createPolicy, mergedArgs, type PolicyQuestion } from '../../../src/worker/guards/policy.ts';
import { hardText, type HardReason, type HardRules } from '../../../src/worker/guards/hard-rules.ts';
import { rounds } from '../../support/lane.ts';

const hard: HardRules = {
  commands: ['git status', 'ls'],
  domains: ['api.example.org', 'plain.example.org', '10.0.0.7'],
  allowInsecure: ['plain.example.org', 'api.example.org:8080'],
  isPrivateHost: (host) => host.startsWith('10.'),
};

const question: PolicyQuestion = {
  subject: 'tool_call',
  eventType: 'tool.execute.start',
  toolName: 'send_mail',
  args: { to: 'a@example.org', options: { urgent: true, tags: ['x', 'y'] }, draft: null },
  context: { agentId: 'support', tenant: 'shop', stepNumber: 3 },
  metadata: { plan: 'free' },
};

function rule(fields: Partial<PolicyRule> & Pick<PolicyRule, 'action'>): PolicyRule {
  return policyRule.parse({ ruleId: 'r', ...fields });
}

function decide(
  rules: readonly PolicyRule[],
  about: Partial<PolicyQuestion> = {},
  agentRules: readonly PolicyRule[] = [],
) {
  return createPolicy(rules, hard, agentRules).decide({ ...question, ...about });
}

test('without a rule that matches, a call is allowed and no rule is named', () => {
  expect(decide([])).toEqual({ action: 'allow' });
  expect(decide([rule({ action: 'deny', condition: { toolName: 'other' } })])).toEqual({ action: 'allow' });
});

test.each(policyAction.options)('the action %s comes with the rule and its reason', (action) => {
  expect(decide([rule({ action, reason: 'because' })])).toEqual({ action, ruleId: 'r', reason: 'because' });
});

describe('the order of rules', () => {
  const ids = (rules: readonly PolicyRule[], own: readonly PolicyRule[] = []) => decide(rules, {}, own).ruleId;
  const named = (ruleId: string, priority: number, enabled = true) =>
    rule({ action: 'allow', ruleId, priority, enabled });

  test('the highest priority comes first, then the first id, whatever the order they were written in', () => {
    expect(ids([named('b', 5), named('a', 5), named('z', 4)])).toBe('a');
    expect(ids([named('a', 5), named('z', 6)])).toBe('z');
    expect(ids([named('a10', 1), named('a9', 1)])).toBe('a10');
  });

  test("of equal priority the operator's rules come before an agent's, whatever their ids", () => {
    expect(ids([named('z', 5)], [named('a', 5)])).toBe('z');
    expect(ids([named('z', 5)], [named('a', 6)])).toBe('a');
  });

  test('a rule that is switched off is not there', () => {
    expect(ids([named('a', 9, false), named('b', 1)])).toBe('b');
  });

  test('the first that matches is the first of all that match alone', () => {
    const anyRule = fc.record({
      ruleId: fc.stringMatching(/^[a-c]{1,3}$/),
      action: fc.constantFrom(...policyAction.options),
      priority: fc.nat(3),
      enabled: fc.boolean(),
      subjects: fc.subarray([...policySubject.options], { minLength: 1 }),
      condition: fc.constantFrom({}, { toolName: 'send_mail' }, { toolName: 'x' }, { pattern: 'send_*' }),
    });
    fc.assert(
      fc.property(fc.array(anyRule, { maxLength: 8 }), (inputs) => {
        const rules = inputs.map((input) => policyRule.parse(input));
        const winners = rules
          .filter((one) => decide([one]).ruleId !== undefined)
          .sort((a, b) => b.priority - a.priority || (a.ruleId < b.ruleId ? -1 : Number(a.ruleId > b.ruleId)));
        expect(decide(rules).ruleId).toBe(winners[0]?.ruleId);
      }),
    );
  });
});

const subagent = { subject: 'subagent', toolName: undefined, subagentName: 'researcher' } as const;

test.each<[what: string, condition: PolicyRule['condition'], matches: boolean, about?: object]>([
  ['nothing', {}, true],
  ['its event', { eventType: 'tool.execute.start' }, true],
  ['another event', { eventType: 'llm.call' }, false],
  ['its tool', { toolName: 'send_mail' }, true],
  ['another tool', { toolName: 'send' }, false],
  ['a pattern of the name', { pattern: 'send_*' }, true],
  ['a pattern of another name', { pattern: 'read_*' }, false],
  ['a pattern of a sub-agent', { pattern: 're*' }, true, subagent],
  ['a pattern where nothing has a name', { pattern: '*' }, false, { toolName: undefined }],
  ['its sub-agent', { subagentName: 'researcher' }, true, subagent],
  ['a sub-agent where there is none', { subagentName: 'researcher' }, false],
  ['an argument', { contextEquals: { to: 'a@example.org' } }, true],
  ['another argument', { contextEquals: { to: 'b@example.org' } }, false],
  ['a deep argument, in any order', { contextEquals: { options: { tags: ['x', 'y'], urgent: true } } }, true],
  ['a list in another order', { contextEquals: { options: { tags: ['y', 'x'], urgent: true } } }, false],
  ['a part of an argument', { contextEquals: { options: { urgent: true } } }, false],
  ['null', { contextEquals: { draft: null } }, true],
  ['null where nothing is', { contextEquals: { cc: null } }, false],
  ['a number as text', { contextEquals: { stepNumber: '3' } }, false],
  ['the context', { contextEquals: { tenant: 'shop', stepNumber: 3 } }, true],
  ['a name every object has', { contextEquals: { constructor: 'x' } }, false],
  ['keys that are there', { hasKeys: ['to', 'draft'] }, true],
  ['a key that is not', { hasKeys: ['to', 'cc'] }, false],
  ['a key every object has', { hasKeys: ['toString'] }, false],
  ['keys of no object', { hasKeys: ['0'] }, false, { args: 'text' }],
  ['metadata', { metadataEquals: { plan: 'free' } }, true],
  ['other metadata', { metadataEquals: { plan: 'pro' } }, false],
  ['two parts of which one matches', { toolName: 'send_mail', metadataEquals: { plan: 'pro' } }, false],
])('a condition on %s', (_, condition, matches, about = {}) => {
  const subjects = ['tool_call', 'subagent'] as const;
  expect(decide([rule({ action: 'deny', condition, subjects: [...subjects] })], about).action).toBe(
    matches ? 'deny' : 'allow',
  );
});

test('a rule is about its subjects only', () => {
  const rules = [rule({ action: 'deny', subjects: ['llm_call', 'interaction'] })];
  const denied = policySubject.options.filter((subject) => decide(rules, { subject }).action === 'deny');
  expect(denied).toEqual(['llm_call', 'interaction']);
});

test('no argument can pass for a field of the context', () => {
  const rules = [rule({ action: 'deny', condition: { contextEquals: { tenant: 'shop' } } })];
  expect(decide(rules, { args: { tenant: 'other' } }).action).toBe('deny');
  const inContext = { context: { region: 'eu' }, args: { region: 'us' } };
  const european = rule({ action: 'deny', condition: { contextEquals: { region: 'eu' } } });
  expect(decide([european], inContext).action).toBe('deny');
  const vip = rule({ action: 'request_approval', condition: { contextEquals: { threadId: 'vip' } } });
  expect(decide([vip], { args: { threadId: 'vip' } }).action).toBe('allow');
  const allowed = [
    rule({ action: 'deny', priority: 1 }),
    rule({ action: 'allow', condition: { contextEquals: { tenant: 'bank' } } }),
  ];
  expect(decide(allowed, { args: { tenant: 'bank' } }).action).toBe('deny');
});

describe('rewritten arguments', () => {
  const rewrite = (updatedToolArgs: Record<string, unknown>, action: PolicyRule['action'] = 'allow') =>
    decide([rule({ action, updatedToolArgs })]).updatedToolArgs;

  test('stand over those of the model, one level deep', () => {
    expect(rewrite({ to: 'b@example.org', options: { urgent: false } })).toEqual({
      to: 'b@example.org',
      options: { urgent: false },
      draft: null,
    });
    for (const action of ['defer', 'request_approval'] as const)
      expect(rewrite({ to: 'x' }, action)).toHaveProperty('to', 'x');
  });

  test('never reach a prototype, and share nothing with the rule', () => {
    const update = JSON.parse('{"__proto__":{"polluted":1},"deep":{"a":1}}') as Record<string, unknown>;
    const merged = mergedArgs(JSON.parse('{"__proto__":{"polluted":2}}'), update);
    expect(Object.keys(merged)).toEqual(['deep']);
    expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect(merged['deep']).not.toBe(update['deep']);
    expect(mergedArgs('text', { a: 1 })).toEqual({ a: 1 });
  });

  test('are refused where the call is not made', () => {
    for (const action of ['deny', 'request_user_input'] as const)
      expect(policyRule.safeParse({ ruleId: 'r', action, updatedToolArgs: {} }).error?.issues[0]?.path).toEqual([
        'updatedToolArgs',
      ]);
  });
});

describe('hard rules', () => {
  const lets = rule({ action: 'allow', priority: 1_000_000 });

  test.each<[reason: HardReason, about: Partial<PolicyQuestion>]>([
    ['command_not_allowed', { facts: { command: 'git status --short' } }],
    ['domain_not_allowed', { facts: { urls: ['https://evil.example.org/'] } }],
    ['insecure_url', { facts: { urls: ['http://api.example.org/'] } }],
  ])('%s is a denial that no rule lifts, and that an approval does not either', (reason, about) => {
    const verdict = { action: 'deny', hard: reason, reason: hardText[reason] };
    expect(decide([lets], about)).toEqual(verdict);
    expect(decide([lets], { ...about, approved: true })).toEqual(verdict);
    expect(createPolicy([lets], hard).decideHard({ ...question, ...about })).toEqual(verdict);
  });

  test('gate_required asks a person for what cannot be taken back, with the rewritten arguments of the rule', () => {
    const gate = { action: 'request_approval', hard: 'gate_required', reason: hardText.gate_required };
    expect(decide([], { facts: { commits: true } })).toEqual(gate);
    const rewriting = rule({ action: 'allow', updatedToolArgs: { to: 'x' } });
    expect(decide([rewriting], { args: {}, facts: { commits: true } })).toEqual({
      ...gate,
      ruleId: 'r',
      updatedToolArgs: { to: 'x' },
    });
    expect(decide([lets], { facts: { commits: true }, approved: true }).action).toBe('allow');
  });

  test.each(['deny', 'defer', 'request_user_input'] as const)(
    'a rule that says %s stands before the gate',
    (action) => {
      expect(decide([rule({ action })], { facts: { commits: true } })).toEqual({ action, ruleId: 'r' });
    },
  );

  test('a person who has granted a call is not asked by rules again, but cannot grant what one denies', () => {
    for (const action of ['request_approval', 'defer'] as const)
      expect(decide([rule({ action })], { approved: true })).toEqual({ action: 'allow', ruleId: 'r' });
    expect(decide([rule({ action: 'deny' })], { approved: true }).action).toBe('deny');
  });

  test.each<[url: string, reason: HardReason | undefined]>([
    ['https://api.example.org/x', undefined],
    ['https://API.example.org./x', undefined],
    ['https://api.example.org:8443/x', undefined],
    ['https://sub.api.example.org/', 'domain_not_allowed'],
    ['https://example.org/', 'domain_not_allowed'],
    ['https://api.example.org@evil.example/', 'domain_not_allowed'],
    ['https://evil.example/api.example.org', 'domain_not_allowed'],
    ['https://api.example.org.evil.example/', 'domain_not_allowed'],
    ['https://10.0.0.7/', 'domain_not_allowed'],
    ['https://0xa000007/', 'domain_not_allowed'],
    ['http://plain.example.org/', undefined],
    ['http://plain.example.org:81/', undefined],
    ['http://api.example.org:8080/', undefined],
    ['http://api.example.org/', 'insecure_url'],
    ['ftp://plain.example.org/', 'insecure_url'],
    ['file:///etc/passwd', 'insecure_url'],
    ['javascript:alert(1)', 'insecure_url'],
    ['no url', 'insecure_url'],
  ])('a call to %s', (url, reason) => {
    const verdict = decide([], { facts: { urls: ['https://api.example.org/', url] } });
    expect(verdict.hard).toBe(reason);
  });

  test.each<[command: string, allowed: boolean]>([
    ['ls', true],
    ['git status', true],
    ['ls -l', false],
    ['LS', false],
    ['ls;rm', false],
    ['', false],
  ])('the command %j', (command, allowed) => {
    expect(decide([], { facts: { command } }).action).toBe(allowed ? 'allow' : 'deny');
  });

  test('without a list of commands none is allowed, without one of domains any public host is', () => {
    const open: HardRules = { commands: [], allowInsecure: [], isPrivateHost: (host) => host === '::1' };
    const about = (facts: NonNullable<PolicyQuestion['facts']>) =>
      createPolicy([], open).decide({ ...question, facts }).hard;
    expect(about({ command: 'ls' })).toBe('command_not_allowed');
    expect(about({ urls: ['https://anything.example/'] })).toBeUndefined();
    expect(about({ urls: ['https://[0:0::1]/'] })).toBe('domain_not_allowed');
    expect(about({})).toBeUndefined();
  });

  test('no text for people contains an argument', () => {
    const verdict = decide([], { facts: { urls: ['https://secret-host.example/?key=1'], command: 'ls' } });
    expect(JSON.stringify(verdict)).not.toContain('secret-host');
  });
});

describe('patterns', () => {
  test.each<[pattern: string, name: string, matches: boolean]>([
    ['*', '', true],
    ['*', 'anything', true],
    ['?', '', false],
    ['?', '😀', true],
    ['a*c', 'abbbc', true],
    ['a*c', 'abbb', false],
    ['*_mail', 'send_mail', true],
    ['send.*', 'sendxmail', false],
    ['send.*', 'send.mail', true],
    ['Send', 'send', false],
    ['**a**', 'bab', true],
    ['*', '*a', true],
    ['a*', 'a*b', true],
    ['[ab]', 'a', false],
  ])('%s and %s', (pattern, name, matches) => {
    expect(matchesGlob(pattern, name)).toBe(matches);
  });

  test('mean what a regular expression for them means', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 12 });
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*', '?'), maxLength: 8 });
    fc.assert(
      fc.property(pattern, letters, (glob, name) => {
        const source = glob.replaceAll('.', '\\.').replaceAll('*', '.*').replaceAll('?', '.');
        expect(matchesGlob(glob, name)).toBe(new RegExp(`^${source}$`).test(name));
      }),
      { numRuns: rounds({ fast: 300, all: 2_000 }) },
    );
  });

  test('are decided in few steps where backtracking would never end', () => {
    expect(matchesGlob('*a'.repeat(100), `${'a'.repeat(5_000)}b`)).toBe(false);
  });
});

test('equality of arguments is that of their JSON', () => {
  const copyOf = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown;
  const small = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom(null, true, 0, 1, '', '1'),
      fc.array(tie('value'), { maxLength: 2 }),
      fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), tie('value'), { maxKeys: 2 }),
    ),
  })).value;
  fc.assert(
    fc.property(small, small, (a, b) => {
      const [wanted, given] = [copyOf(a), copyOf(b)];
      const rules = [{ ...rule({ action: 'deny' }), condition: { contextEquals: { x: wanted } } }];
      expect(decide(rules, { args: { x: given } }).action).toBe(isDeepStrictEqual(wanted, given) ? 'deny' : 'allow');
    }),
    { numRuns: rounds({ fast: 300, all: 2_000 }) },
  );
});

describe('a rule and a tool of a server', () => {
  const theirs = { toolName: 'http_request', sourceNames: ['mcp:evil/http_request'] };
  const renamed = { toolName: 'evil__http_request', sourceNames: ['mcp:evil/http.request', 'mcp:evil/http_request'] };
  const allows = (condition: PolicyRule['condition'], about: Partial<PolicyQuestion>) =>
    decide([rule({ action: 'deny', priority: 1, ruleId: 'rest' }), rule({ action: 'allow', condition })], about)
      .action === 'allow';

  test.each([
    [{ toolName: 'http_request' }],
    [{ toolName: 'evil__http_request' }],
    [{ pattern: 'http_*' }],
    [{ pattern: '*_request' }],
    [{ pattern: '*' }],
    [{ toolName: 'mcp:tame/http_request' }],
    [{ pattern: 'mcp:tame/*' }],
  ])('what %j permits is not permitted to the server that calls its tool so', (condition) => {
    expect([allows(condition, theirs), allows(condition, renamed)]).toEqual([false, false]);
  });

  test.each([[{ toolName: 'mcp:evil/http_request' }], [{ pattern: 'mcp:evil/*' }], [{ pattern: 'mcp:*' }], [{}]])(
    'what %j permits is permitted to it, and to no code of this worker of that name',
    (condition) => {
      expect([allows(condition, theirs), allows(condition, renamed)]).toEqual([true, true]);
      const isForAll = Object.keys(condition).length === 0;
      expect(allows(condition, { toolName: 'http_request' })).toBe(isForAll);
    },
  );

  test.each([
    [{ toolName: 'http_request' }],
    [{ pattern: 'http_*' }],
    [{ pattern: '*_request' }],
    [{ toolName: 'mcp:evil/http_request' }],
    [{ pattern: 'mcp:evil/*' }],
  ])('what %j stops is stopped wherever it comes from', (condition) => {
    for (const action of ['deny', 'request_approval', 'defer', 'request_user_input'] as const)
      for (const about of [theirs, renamed]) expect(decide([rule({ action, condition })], about).action).toBe(action);
  });

  test('arguments that a rule puts in go to the tool that it names, and to no server that calls its tool so', () => {
    const updatedToolArgs = { account: 'ours' };
    const ask = (toolName: string) => rule({ action: 'request_approval', condition: { toolName }, updatedToolArgs });
    expect(decide([ask('http_request')], { toolName: 'http_request' }).updatedToolArgs).toMatchObject(updatedToolArgs);
    expect(decide([ask('http_request')], theirs)).toEqual({ action: 'request_approval', ruleId: 'r' });
    expect(decide([ask('mcp:evil/http_request')], theirs).updatedToolArgs).toMatchObject(updatedToolArgs);
  });
});
