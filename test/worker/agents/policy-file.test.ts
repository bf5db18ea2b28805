import { expect, test } from 'vitest';
import { parseConfig } from '../../../src/shared/contract/config.ts';
import { RunError } from '../../../src/shared/base/errors.ts';
import { policyRule } from '../../../src/shared/contract/agent/policy.ts';
import { loadPolicyFile, policyFor, policyWarnings } from '../../../src/worker/agents/policy-file.ts';
import { scratchFile } from '../llm/scratch-file.ts';

function problemsOf(text: string): readonly string[] {
  const path = scratchFile('policies.yaml', text);
  try {
    loadPolicyFile(path);
  } catch (error) {
    if (error instanceof RunError && error.code === 'invalid_config')
      return (error.details as string[]).map((problem) => problem.replace(`${path}: `, ''));
    throw error;
  }
  return [];
}

const question = {
  subject: 'tool_call',
  eventType: 'tool.execute.start',
  toolName: 'send_mail',
  context: {},
  metadata: {},
} as const;

test('a file becomes a policy, in which its rules stand before those of an agent', () => {
  const file = loadPolicyFile(
    scratchFile(
      'policies.yaml',
      `rules:
  - { ruleId: zz-operator, action: deny, condition: { pattern: 'send_*' } }
commands: [git status]
domains: [API.example.org., münchen.example]
allowInsecure: ['plain.example.org:80', 'a.example:443', b.example]
`,
    ),
  );
  expect(file.domains).toEqual(['api.example.org', 'xn--mnchen-3ya.example']);
  expect(file.allowInsecure).toEqual(['plain.example.org:80', 'a.example:443', 'b.example']);
  const own = [policyRule.parse({ ruleId: 'aa-agent', action: 'allow' })];
  const policy = policyFor(file, own, (host) => host === 'private.example');
  expect(policy.decide(question).ruleId).toBe('zz-operator');
  expect(policy.decide({ ...question, toolName: 'x' }).ruleId).toBe('aa-agent');
  const hardOf = (facts: object) => policy.decide({ ...question, toolName: 'x', facts }).hard;
  expect(hardOf({ command: 'git status' })).toBeUndefined();
  expect(hardOf({ command: 'git' })).toBe('command_not_allowed');
  expect(hardOf({ urls: ['https://xn--mnchen-3ya.example/', 'https://münchen.example/'] })).toBeUndefined();
  expect(hardOf({ urls: ['https://elsewhere.example/'] })).toBe('domain_not_allowed');
});

test('without a file there are no rules, no commands, and every public domain', () => {
  const policy = policyFor(loadPolicyFile(undefined), [], (host) => host === 'private.example');
  const hardOf = (facts: object) => policy.decide({ ...question, facts }).hard;
  expect(policy.decide(question)).toEqual({ action: 'allow' });
  expect(hardOf({ command: 'ls' })).toBe('command_not_allowed');
  expect(hardOf({ urls: ['https://any.example/'] })).toBeUndefined();
  expect(hardOf({ urls: ['https://private.example/'] })).toBe('domain_not_allowed');
});

test('every problem of a file is reported at once', () => {
  const problems = problemsOf(`rules:
  - { ruleId: a, action: forbid }
  - { ruleId: 'b b', action: deny, conditions: {} }
  - { ruleId: c, action: deny, updatedToolArgs: { x: 1 } }
domains: ['*.example.org', 'https://x.example', 'x.example:443', localhost]
allowInsecure: ['x.example/path']
command: [ls]
`);
  const places = problems.map((problem) => problem.split(':', 1)[0]);
  expect(new Set(places)).toEqual(
    new Set([
      'rules.0.action',
      'rules.1.ruleId',
      'rules.1.conditions',
      'rules.2.updatedToolArgs',
      'domains.0',
      'domains.1',
      'domains.2',
      'domains.3',
      'allowInsecure.0',
      'command',
    ]),
  );
});

test('an id that is there twice is a problem, as events could not say which rule decided', () => {
  const twice = 'rules: [{ ruleId: a, action: deny }, { ruleId: b, action: deny }, { ruleId: a, action: allow }]';
  expect(problemsOf(twice)).toEqual(['rules.2.ruleId: a is there twice']);
});

test('what may be a mistake and yet be meant is a warning', () => {
  const file = loadPolicyFile(
    scratchFile(
      'policies.yaml',
      'rules: [{ ruleId: a, action: deny, condition: { toolName: nowhere } }, { ruleId: b, action: deny }]',
    ),
  );
  const own = [policyRule.parse({ ruleId: 'b', action: 'allow', condition: { toolName: 'here' } })];
  const tools = new Set(['here']);
  expect(policyWarnings(file, own, { tools, isComplete: true })).toEqual([
    'rule b: the policy file has a rule of this id, too',
    'rule a: there is no tool nowhere',
  ]);
  expect(policyWarnings(file, [], { tools, isComplete: false })).toEqual([]);
});

test('a policy file or a folder of secrets that is not there is a problem of the configuration', () => {
  const path = scratchFile('policies.yaml', '');
  const read = () => parseConfig({ MILLRACE_POLICIES: `${path}.no`, MILLRACE_SECRETS: path });
  expect(read).toThrow(`MILLRACE_POLICIES: there is no file ${path}.no`);
  expect(read).toThrow(`MILLRACE_SECRETS: there is no folder ${path}`);
});
