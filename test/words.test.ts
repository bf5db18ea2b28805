import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { retiredWords, retiredWordsIn } from './support/retired-words.ts';

const root = join(import.meta.dirname, '..');
const paths = globSync(
  [
    '{src,docs,scripts,bench,examples,agents,helm}/**/*.{ts,lua,mjs,js,md,yaml,yml,json,tpl,txt}',
    'README.md',
    'docker-compose.yml',
  ],
  { cwd: root, exclude: ['**/node_modules/**'] },
).sort();

/** Words that stay, each with its reason. */
const exceptions: readonly { readonly path: RegExp; readonly words: readonly string[]; readonly because: string }[] = [
  {
    path: /^src\/worker\/guards\/injection-patterns\.ts$/,
    words: ['told', 'tell', 'telling', 'nobody'],
    because: 'what attackers write to a model',
  },
  {
    path: /^src\/worker\/agents\/agent-spellings\.ts$/,
    words: ['memory'],
    because: 'other systems spell the option so, and the border translates it',
  },
  {
    path: /^src\/worker\/turn\/compaction\/policy\.ts$/,
    words: ['memory'],
    because: 'the reason `no-memory` of a skipped compaction is on the wire',
  },
  { path: /^src\/worker\/turn\/listen\.ts$/, words: ['memory'], because: 'the memory of a process' },
];

function uses(path: string): { readonly word: string; readonly line: string }[] {
  return [
    ...retiredWordsIn(path, path).map(({ word }) => ({ word, line: `${path}: "${word}" in its name` })),
    ...retiredWordsIn(path, readFileSync(join(root, path), 'utf8')).map(({ word, but, line }) => ({
      word,
      line: `${path}:${line}: "${word}" is ${but}`,
    })),
  ];
}

test('source, documentation and metrics use the words of the glossary, and none that they replaced', () => {
  expect(paths.length).toBeGreaterThan(500);
  const found = paths.flatMap((path) =>
    uses(path).filter(({ word }) => !exceptions.some((stays) => stays.path.test(path) && stays.words.includes(word))),
  );
  expect(found.map(({ line }) => line)).toEqual([]);
});

test('every exception is needed', () => {
  for (const { path, words } of exceptions) {
    const found = paths.filter((file) => path.test(file)).flatMap(uses);
    expect(new Set(found.map(({ word }) => word)), `${path}`).toEqual(new Set(words));
  }
});

test.each([
  ['a word of prose', 'src/a.ts', '// The script told it.', 'told'],
  ['a part of a name', 'src/a.ts', 'const tellParent = 1;', 'tell'],
  ['a part of a metric', 'docs/a.md', '`millrace_governor_parked_total`', 'governor'],
  ['a part of a key in Lua', 'src/a.lua', "redis.call('HGET', key, 'told_at')", 'told'],
  ['a phrase over two lines of a comment', 'src/a.ts', '/**\n * The run is put\n * back.\n */', 'put back'],
  ['a phrase in a name', 'src/a.ts', 'const putBacks = 0; runs_put_back', 'put back'],
  ['a name in capitals', 'helm/a.yaml', 'MAX_PATIENCE_MS', 'patience'],
  ['a kind of journal entry', 'src/a.ts', "{ v: 1, t: 'answered' }", "t: 'answered'"],
])('%s is seen', (_, path, text, word) => {
  expect(retiredWordsIn(path, text).map((use) => use.word)).toContain(word);
});

test('a word that only contains a retired one is no use of it', () => {
  expect(retiredWordsIn('src/a.ts', 'placeholder recommend equivalent storytelling computer amendment')).toEqual([]);
});

test('no word is retired twice', () => {
  const words = retiredWords.map(({ not, within }) => `${not} ${within ?? ''}`);
  expect(new Set(words).size).toBe(words.length);
});
