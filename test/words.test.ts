import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');

/** Words that the glossary replaced, also as parts of a name, as in `tellParent` and `lastTold`. */
const words = phrases(
  'tell tells telling told whoever whomever nobody somebody afresh lent',
  'purse cashier forfeit presumed pump desk attend attends heard governor waker essentials speaker deaf',
  'havoc witness mend mends mended stepped',
  ['put back', 'puts back', 'putting back', 'passed over', 'driven again', 'given up', 'at work', 'side call'],
  ['take up', 'takes up', 'taking up', 'taken up', 'took up', 'run above', 'runs above', 'run below', 'runs below'],
  ['stand in line', 'stands in line', 'patience ms', 'say to run', 'thread hold', 'thread holder'],
);

/** Names that it replaced whose words are fine elsewhere. */
const names = phrases(
  'passOn isOver isProgram isHeld heldFrom placeOf RunPlace putBacks makeEffects deskModel deskCalls',
  'ProgramHost ProgramFacts',
  ["t: 'opened'", "t: 'calling'", "t: 'called'", "t: 'answered'"],
);

function phrases(...lists: (string | readonly string[])[]): RegExp {
  const all = lists.flatMap((list) => (typeof list === 'string' ? list.split(' ') : list));
  return new RegExp(`(?<![\\w'])(?:${all.join('|')})(?![\\w])`);
}

/** Where such a word stays, and why. */
const kept: readonly { readonly path: RegExp; readonly text: RegExp; readonly why: string }[] = [
  {
    path: /^src\/worker\/guards\/injection-patterns\.ts$/,
    text: /t(?:old|ell)/,
    why: 'what attackers write to a model',
  },
];

const sources = [
  'src/**/*.{ts,lua}',
  'docs/**/*.{md,yaml}',
  'helm/**/*.{yaml,tpl}',
  'agents/**/*.*',
  'examples/**/*.{ts,yaml,md}',
  'README.md',
];

function filesToRead(): readonly string[] {
  return sources
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .filter((path) => !path.startsWith('docs/decisions/'));
}

/** In lower case, with names split into their words. */
function asWords(line: string): string {
  return line.replaceAll(/(?<=[a-z\d])(?=[A-Z])|_/g, ' ').toLowerCase();
}

function replacedIn(path: string): readonly string[] {
  const lines = [path, ...readFileSync(join(root, path), 'utf8').split('\n')];
  return lines.flatMap((line, number) => {
    const [found] = words.exec(asWords(line)) ?? names.exec(line) ?? [];
    const stays = kept.some(({ path: where, text }) => where.test(path) && text.test(line));
    return found === undefined || stays ? [] : [`${path}:${number}: ${found}: ${line.trim()}`];
  });
}

test('code, docs and names of metrics have the words of the glossary, and none that it replaced', () => {
  const files = filesToRead();
  expect(files.length).toBeGreaterThan(500);
  expect(files.flatMap(replacedIn)).toEqual([]);
});

test('a replaced word is found in prose, in names and in file names', () => {
  for (const line of [
    'The parent is told.',
    'tellParent(run)',
    'const lastTold = 1',
    "'runs_put_back_total'",
    '`Whoever`',
  ])
    expect(words.test(asWords(line)), line).toBe(true);
  expect(words.test(asWords('storytelling, untold, desktop'))).toBe(false);
});
