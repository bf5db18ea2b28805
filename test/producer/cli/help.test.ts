import { expect, test } from 'vitest';
import { millrace, settings } from './support/cli-process.ts';
import { allCommands, helpOf } from './support/command-line.ts';
import { clientWorld } from './options/client.ts';

test('the first screen fits 40 lines of 80 columns, and begins with what a newcomer needs', async () => {
  const { code, stdout } = await millrace(['--help']);
  const lines = stdout.trimEnd().split('\n');
  expect(code).toBe(0);
  expect(lines.length).toBeLessThanOrEqual(40);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  const [, , title, ...rest] = lines;
  expect(title).toBe('Start here:');
  expect(rest.slice(0, 5).map((line) => line.trim().split(' ')[0])).toEqual(
    expect.arrayContaining(['dev', 'run', 'batch']),
  );
});

test('the first screen names every command', async () => {
  const { stdout } = await millrace(['--help']);
  const names = allCommands().flatMap(({ path }) => (path.includes(' ') ? [] : [path]));
  expect(names.filter((name) => !new RegExp(`^(  ${name}|More: [^]*\\b${name})\\b`, 'm').test(stdout))).toEqual([]);
});

test.each(allCommands())('the help of `$path` has an example whose commands and options exist', (named) => {
  const [, shown = ''] = helpOf(named).split('Examples:\n');
  const lines = shown.split('\n').filter((line) => line.startsWith('  $ '));
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) {
    const [, called = ''] = /\bmillrace (.*)$/.exec(line) ?? [];
    const [first = '', second = ''] = called.split(' ');
    const meant =
      allCommands().find(({ path }) => path === `${first} ${second}`) ??
      allCommands().find(({ path }) => path === first);
    const known = meant?.options.flatMap(({ short, long }) => [short, long]) ?? [];
    const parts = meant?.command.commands.flatMap(({ options }) => options.map(({ long }) => long)) ?? [];
    const used = [
      ...called
        .split('|')[0]!
        .replace(/"[^"]*"|'[^']*'/g, '')
        .matchAll(/(?<=\s)--?[a-z][a-z-]*/g),
    ];
    expect([line, used.map(([option]) => option).filter((option) => ![...known, ...parts].includes(option))]).toEqual([
      line,
      [],
    ]);
  }
});

/** A replay is of an agent that may be in no fleet yet. */
const ofFile = 'replay --agent <file>';

test('options of one name have one form in all commands', () => {
  const forms = new Map<string, Set<string>>();
  for (const { path, options } of allCommands())
    for (const { long = '', flags } of options.filter((option) => `${path} ${option.flags}` !== ofFile))
      forms.set(long, (forms.get(long) ?? new Set()).add(flags));
  expect([...forms.values()].filter((flags) => flags.size > 1).map((flags) => [...flags])).toEqual([]);
});

test.each([
  ['rn support hello', 'Did you mean'],
  ['runs --limt 3', 'Did you mean --limit?'],
  ['threads lst', 'Did you mean threads list?'],
  ['agents chek ./agents', 'Did you mean agents check?'],
  ['budget gte batch b', 'Did you mean get?'],
])('`millrace %s` suggests what was meant', async (args, says) => {
  const { code, stderr } = await millrace(args.split(' '));
  expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
});

test('an agent that is not known is answered with the one that was meant, and the command that lists them', async () => {
  const { prefix, mill } = await clientWorld();
  const about = { model: 'm', models: [], tools: [], description: '' };
  await mill.registerAgents(['support', 'billing'].map((id) => ({ id, ...about })));
  for (const args of [
    ['run', 'suport', 'hello'],
    ['chat', 'suport'],
  ]) {
    const { code, stderr } = await millrace(args, { env: settings(prefix) });
    expect([code, stderr]).toEqual([2, expect.stringContaining('there is no agent suport; did you mean support?')]);
    expect(stderr).toContain('→ node bin/millrace.mjs agents');
  }
});

test('a run that is not known is answered with the command that lists them', async () => {
  const { prefix } = await clientWorld();
  const { stderr } = await millrace(['get', '01K9Z5N3T8R6V2X4B7C1D0E9FG'], { env: settings(prefix) });
  expect(stderr).toMatch(/^run_not_found: .*\n→ node bin\/millrace\.mjs runs/);
});
