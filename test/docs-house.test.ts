import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { codeBlocks, firstCells } from './support/markdown.ts';
import { arrows, maxFilesInFolder } from './support/house-rules.ts';

const root = join(import.meta.dirname, '..');
const page = read('docs/house.md');

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** Without its folder: rooms have names of their own. */
function shortName(room: string): string {
  return room.split('/').at(-1) ?? room;
}

/** Every room that one can get to along the arrows of the picture. */
function reachable(from: string, drawn: ReadonlyMap<string, readonly string[]>): Set<string> {
  const found = new Set<string>();
  const walk = (room: string) => {
    for (const next of drawn.get(room) ?? []) {
      if (!found.has(next)) walk(next);
      found.add(next);
    }
  };
  walk(from);
  return found;
}

test('the picture of the house allows exactly the imports that the rules allow', () => {
  const drawn = new Map(
    [...(codeBlocks(page, 'mermaid')[0] ?? '').matchAll(/^ +(\w+) --> ([\w &]+)$/gm)].map(([, from = '', to = '']) => [
      from,
      to.split(' & '),
    ]),
  );
  const allowed = Object.entries(arrows).map(([room, into]) => [shortName(room), new Set(into.map(shortName))]);
  const seen = Object.keys(arrows).map((room) => [shortName(room), reachable(shortName(room), drawn)]);
  expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(allowed));
});

test('the page about the house has a row for each room', () => {
  const rooms = Object.keys(arrows).map((room) => (room === 'worker/entry' ? 'worker' : room));
  const listed = firstCells(page, 'Rooms');
  expect(new Set(listed)).toEqual(new Set(rooms));
  expect(listed.filter((room) => !existsSync(join(root, 'src', room)))).toEqual([]);
  expect(page).toContain(`at most ${maxFilesInFolder} source files`);
});

test('the glossary of the docs has every word of the glossary in the code', () => {
  const [head = ''] = read('src/shared/contract/event.ts').split('*/');
  const words = [...head.matchAll(/(?:^ \* - |; )([a-z][a-z -]*(?:, [a-z -]+)*): /gm)].flatMap(([, word = '']) =>
    word.split(', '),
  );
  const explained = [...read('docs/glossary.md').matchAll(/\*\*([^*]+)\*\*/g)].flatMap(([, word = '']) =>
    word.toLowerCase().split(', '),
  );
  expect(words.length).toBeGreaterThan(20);
  expect(words.filter((word) => !explained.includes(word))).toEqual([]);
});
