import { globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { describe, expect, test } from 'vitest';
import { batchStatus } from '../src/shared/contract/batch.ts';
import { runStatus } from '../src/shared/contract/run.ts';

const root = join(import.meta.dirname, '..');
const page = read('docs/how-a-run-flows.md');
const machines = sectionsBelow('State machines');
const heads = new Set(['state', 'from']);
/** Whose scripts the tables have to name. */
const aggregates = /^src\/shared\/state\/(run|thread|money|limits\/rate|batch)\//;

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** What stands below each `###` of a `##`, by its title. */
function sectionsBelow(title: string): ReadonlyMap<string, string> {
  const [, rest = ''] = page.split(`\n## ${title}\n`);
  const [section = ''] = rest.split(/\n## /);
  return new Map(section.split('\n### ').map((text) => [text.split('\n')[0] ?? '', text]));
}

function machine(name: string): string {
  const text = machines.get(name);
  if (text === undefined) throw new Error(`there is no section ${name} below State machines`);
  return text;
}

/** The rows of the tables that have so many columns, without their heads. */
function rows(text: string, columns: number): string[][] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('|') && !/^\| *-/.test(line))
    .map((line) =>
      line
        .slice(1, -1)
        .split(' | ')
        .map((cell) => cell.replaceAll('|', '').trim()),
    )
    .filter((cells) => cells.length === columns && !heads.has(cells[0] ?? ''));
}

/** The states that a cell names; a dash is what Mermaid writes as `[*]`. */
function statesOf(cell = ''): string[] {
  return cell.split(', ').map((state) => (state === '—' ? '[*]' : state.replaceAll('`', '')));
}

function statesIn(text: string): string[] {
  return rows(text, 2).flatMap(([state]) => statesOf(state));
}

function codeIn(text = ''): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}

function filesOf(pattern: string): string[] {
  return globSync(pattern, { cwd: root }).map((path) => path.split('\\').join('/'));
}

/** What the files hold, as one text. */
function sources(pattern: string): string {
  return filesOf(pattern).map(read).join('\n');
}

/** Each has a diagram, a table of its states and one of its transitions. */
const names = ['Run', 'Thread lock', 'Reservation', 'Permit', 'Batch', 'Line of a batch'];

test.each(names)('the diagram of %s has exactly the transitions of its table', (name) => {
  const drawn = [...machine(name).matchAll(/^ +(\S+) --> (\S+)$/gm)].map(([, from, to]) => `${from} → ${to}`);
  const moves = rows(machine(name), 4).filter(([from, to]) => from !== to);
  const listed = moves.flatMap(([from, to]) =>
    statesOf(from).flatMap((one) => statesOf(to).flatMap((other) => (one === other ? [] : `${one} → ${other}`))),
  );
  expect(drawn.length).toBeGreaterThan(3);
  expect(drawn.toSorted()).toEqual([...new Set(listed)].toSorted());
});

test.each(names)('the states of %s are those of its diagram', (name) => {
  const drawn = [...machine(name).matchAll(/^ +(\S+) --> (\S+)$/gm)].flatMap(([, ...states]) => states);
  const inTable = rows(machine(name), 4).flatMap(([from, to]) => [...statesOf(from), ...statesOf(to)]);
  const known = new Set(statesIn(machine(name)));
  expect(new Set(drawn.filter((state) => state !== '[*]'))).toEqual(known);
  expect(new Set(inTable.filter((state) => state !== '[*]'))).toEqual(known);
});

describe('the states are those of the code', () => {
  test('of a run', () => {
    expect(statesIn(machine('Run'))).toEqual(runStatus.options);
  });

  test('of a waiter for a permit', () => {
    const kinds = [...sources('src/shared/state/limits/rate/*.lua').matchAll(/\bw\.k(?:, [\w.]+)* = '(\w+)'/g)];
    const waiting = statesIn(machine('Permit')).filter((state) => state !== 'granted');
    expect(new Set(waiting)).toEqual(new Set(kinds.map(([, kind]) => kind)));
  });

  test('of a batch', () => {
    expect(new Set(statesIn(machine('Batch')))).toEqual(new Set(batchStatus.options));
  });

  test.each([
    ['Run', 'src/shared/state/run/**/*.lua'],
    ['Thread lock', 'src/shared/state/thread/*.lua'],
    ['Reservation', 'src/shared/state/money/*.lua'],
    ['Permit', 'src/shared/state/limits/rate/*.lua'],
    ['Batch', 'src/shared/state/batch/*.lua'],
  ])('what %s is stored as stands in its scripts', (name, pattern) => {
    const scripts = sources(pattern);
    const stored = rows(machine(name), 2).flatMap(([, where]) => codeIn(where));
    expect(stored.length).toBeGreaterThan(3);
    expect(stored.filter((field) => !scripts.includes(field))).toEqual([]);
  });
});

test('every script that changes one of these aggregates is named, and every script that is named exists', () => {
  const scripts = filesOf('src/shared/state/**/*.lua');
  const loaded = filesOf('src/**/*.ts').flatMap((path) =>
    [...read(path).matchAll(/'(\.[\w./-]+\.lua)'/g)].map(([, script = '']) => posix.join(posix.dirname(path), script)),
  );
  const named = [...machines.values()].flatMap((text) =>
    [...text.matchAll(/\[([^\]]+)\]\(([^)]+\.lua)\)/g)].map(([, label = '', target = '']) => ({
      label,
      path: posix.join('docs', target),
    })),
  );
  expect(named.filter(({ path }) => !scripts.includes(path))).toEqual([]);
  expect(named.filter(({ label, path }) => !path.endsWith(`/${label}`))).toEqual([]);
  const changes = (path: string) => aggregates.test(path) && !read(path).includes('Writes nothing.');
  const missing = loaded.filter((path) => changes(path) && !named.some((script) => script.path === path));
  expect(loaded.filter((path) => aggregates.test(path)).length).toBeGreaterThan(30);
  expect(missing).toEqual([]);
});
