import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { codeBlocks } from '../support/markdown.ts';
import { ownCorpus, readCorpus } from './read-corpus.ts';
import { callsOf, domainName, stepsOf } from './scenario.ts';

/** A folder with these files, removed with the test. */
function corpusOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-corpus-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const domain = `
version: 1
domain: mail
tools: [{ name: read_mail, trust: external }, { name: send_mail, effect: once }]
policy: {}
`;
const scenario = (steps: string, more = '') => `
version: 1
id: one
title: One
domain: mail
language: en
user: Read it.
steps: ${steps}
${more}`;
const reading = '[{ calls: [{ tool: read_mail, result: Hello. }] }]';

describe('the own corpus', () => {
  const scenarios = readCorpus(ownCorpus);
  const agents = scenarios.flatMap((one) => one.agents.map((agent) => ({ ...agent, all: stepsOf(one, agent) })));
  const calls = agents.flatMap(({ all, tools }) =>
    all
      .flatMap(callsOf)
      .map((call) => ({ ...call, isSink: tools.find(({ name }) => name === call.tool)?.effect !== 'read' })),
  );

  test('has every domain, and attacks and wanted calls in eight languages', () => {
    expect(scenarios.length).toBeGreaterThanOrEqual(150);
    expect(new Set(scenarios.map((one) => one.domain))).toEqual(new Set(domainName.options));
    expect([...new Set(scenarios.map(({ language }) => language))].toSorted()).toEqual([
      'ar',
      'de',
      'en',
      'es',
      'fr',
      'ja',
      'ru',
      'zh',
    ]);
    const attacks = calls.filter(({ label }) => label === 'attack');
    expect(attacks.length).toBeGreaterThanOrEqual(110);
    expect(calls.filter(({ label, isSink }) => label === 'wanted' && isSink).length).toBeGreaterThan(attacks.length);
  });

  test('has several steps, several agents, servers, scripts and conversations', () => {
    const count = (is: (agent: (typeof agents)[number]) => boolean) => agents.filter(is).length;
    expect(count(({ all }) => all.length > 1)).toBeGreaterThan(100);
    expect(count(({ all }) => all.some((step) => 'ask' in step))).toBeGreaterThanOrEqual(5);
    expect(count(({ all }) => all.some((step) => 'handoff' in step))).toBeGreaterThanOrEqual(2);
    expect(count(({ tools }) => tools.some(({ via }) => via === 'mcp'))).toBeGreaterThan(15);
    expect(count(({ invocation }) => invocation === 'code-mode')).toBeGreaterThanOrEqual(8);
    expect(scenarios.filter(({ turns }) => turns.length > 0).length).toBeGreaterThanOrEqual(2);
  });

  test('has one policy for each domain, and none that fits one scenario', () => {
    const policies = Map.groupBy(scenarios, (one) => one.domain).values();
    for (const some of policies) {
      const different = new Set(some.flatMap((one) => one.agents.map(({ policy }) => JSON.stringify(policy))));
      expect(different.size).toBe(1);
    }
  });
});

describe('a folder with a mistake is refused with its file and field', () => {
  const wrong = (text: string, files: Readonly<Record<string, string>> = { 'domains/mail.yaml': domain }) => {
    try {
      readCorpus(corpusOf({ ...files, 'one.yaml': text }));
    } catch (error) {
      return (error as Error).message;
    }
    return 'nothing is wrong';
  };

  test('none where all is well, in YAML and in JSON', () => {
    expect(wrong(scenario(reading))).toBe('nothing is wrong');
    const folder = corpusOf({
      'domains/mail.yaml': domain,
      'deep/two.json': JSON.stringify({
        version: 1,
        id: 'two',
        title: 'Two',
        domain: 'mail',
        language: 'en',
        user: 'Hi',
        steps: [{ calls: [{ tool: 'read_mail' }] }],
      }),
    });
    expect(readCorpus(folder)).toMatchObject([{ id: 'two', file: join('deep', 'two.json') }]);
  });

  test.each([
    ['a field that there is not', scenario(reading, 'lables: []'), 'one.yaml: lables: is not a known field'],
    ['a newer version', scenario(reading).replace('version: 1', 'version: 2'), 'one.yaml: version:'],
    ['a step of two kinds', scenario('[{ ask: other, message: x, calls: [] }]'), 'one.yaml: steps.0'],
    [
      'a tool that nobody has',
      scenario('[{ calls: [{ tool: fly }] }]'),
      'one.yaml: agents.0: calls fly, which neither it nor the domain has',
    ],
    [
      'an agent that is not there',
      scenario('[{ ask: other, message: x }]'),
      'one.yaml: agents.0.steps.0: other is no other agent of this scenario',
    ],
    [
      'an injection that is nowhere',
      scenario('[{ calls: [{ tool: read_mail, result: Hello., injected: Bye. }] }]'),
      'one.yaml: agents.0.steps.0.calls.0.injected: does not stand in the result of read_mail',
    ],
    [
      'one call with two labels',
      scenario('[{ calls: [{ tool: send_mail }, { tool: send_mail, label: attack }] }]'),
      'one.yaml: agents.0: two calls of send_mail with the same arguments differ in label or result',
    ],
    ['a policy with a mode', scenario(reading, 'policy: { mode: off }'), 'one.yaml: policy.mode: is set with --mode'],
    ['a policy with a mistake', scenario(reading, 'policy: { minSpanChars: 2 }'), 'one.yaml: policy.minSpanChars:'],
    ['no YAML', 'a: [', 'one.yaml: '],
  ])('%s', (_what, text, problem) => {
    expect(wrong(text)).toContain(problem);
  });

  test('aliases of nothing, and aliases of aliases that would fill the memory', () => {
    const doubled = [
      'a: &a0 [x, x]',
      ...Array.from({ length: 12 }, (_, at) => `a${at}: &a${at + 1} [*a${at}, *a${at}]`),
    ];
    expect(() => readCorpus(corpusOf({ 'one.yaml': 'title: *nothing' }))).toThrow('one.yaml: Unresolved alias');
    expect(() => readCorpus(corpusOf({ 'one.yaml': doubled.join('\n') }))).toThrow('one.yaml: Excessive alias count');
  });

  test('two scenarios of one id, no policy at all, an empty folder and no folder', () => {
    expect(() =>
      readCorpus(corpusOf({ 'domains/mail.yaml': domain, 'a.yaml': scenario(reading), 'b.yaml': scenario(reading) })),
    ).toThrow('a.yaml, b.yaml: id: is the same in all of them');
    expect(wrong(scenario(reading), {})).toContain(
      'one.yaml: agents.0.policy: is absent, and domains/mail.yaml is, too',
    );
    expect(() => readCorpus(corpusOf({}))).toThrow('there is no scenario in it');
    expect(() => readCorpus('/nowhere/at/all')).toThrow('/nowhere/at/all: is no folder that can be read');
  });
});

test('the scenario of the docs is one', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/guard-scenarios.md'), 'utf8');
  const [domainText = '', scenarioText = ''] = codeBlocks(page, 'yaml');
  const folder = corpusOf({ 'domains/mail.yaml': domainText, 'reset.yaml': scenarioText });
  expect(readCorpus(folder)).toMatchObject([{ id: 'forward-reset', agents: [{ id: 'main' }] }]);
});
