import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect, test } from 'vitest';
import { moduleFacts } from './support/module-facts.ts';

const root = join(import.meta.dirname, '..');
const [, section = ''] = read('docs/how-a-run-flows.md').split('\n## Three walks\n');
const walks = new Map((section.split(/\n## /)[0] ?? '').split('\n### ').map((text) => [text.split('\n')[0], text]));

/** A file of a walk. It works for the nearest one above it that stands further to the left. */
interface Stop {
  readonly path: string;
  readonly indent: number;
  readonly text: string;
}

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

function stopsOf(walk: string): Stop[] {
  const lines = [...(walks.get(walk) ?? '').matchAll(/^( *)- \[`[^`]+`\]\(([^)]+)\)(.*)$/gm)];
  return lines.map(([, indent = '', target = '', text = '']) => ({
    path: posix.join('docs', target),
    indent: indent.length,
    text,
  }));
}

/** Does one name the other: an import, the script that it loads, a script that it includes? */
function names(path: string, other: string): boolean {
  const source = read(path);
  const at = (specifier: string) => posix.join(posix.dirname(path), specifier);
  if (path.endsWith('.lua'))
    return [...source.matchAll(/^-- include (\S+)$/gm)].some(([, name]) => at(`${name}.lua`) === other);
  const named = other.endsWith('.lua')
    ? [...source.matchAll(/'(\.[\w./-]+\.lua)'/g)].map(([, script = '']) => script)
    : moduleFacts(path, source).imports.filter((specifier) => specifier.startsWith('.'));
  return named.some((specifier) => at(specifier) === other);
}

function areJoined(one: string, other: string): boolean {
  return names(one, other) || names(other, one);
}

/** What a file cannot be without that puts into a queue, or takes from it. */
function isAtQueue(path: string): boolean {
  return moduleFacts(path, read(path)).imports.includes('bullmq');
}

/** How a walk comes to this file; undefined where it does not. */
function wayTo(stops: readonly Stop[], index: number): string | undefined {
  const { path, indent, text } = stops[index] as Stop;
  const before = stops.slice(0, index);
  const previous = before.at(-1) as Stop;
  const parent = before.findLast((stop) => stop.indent < indent);
  const [, by] = /\bby `([^`]+)`/.exec(text) ?? [];
  const named = by === undefined ? undefined : before.find((stop) => stop.path.endsWith(`/${by}`));
  if (text.includes('**queue**')) return isAtQueue(previous.path) && isAtQueue(path) ? 'queue' : undefined;
  if (text.includes('**channel**'))
    return read(previous.path).includes('redis.call(publish, live') && read(path).includes('keys.live(')
      ? 'channel'
      : undefined;
  if (by !== undefined) return named && areJoined(named.path, path) ? 'named' : undefined;
  // Beside one that works for the same file, or back at one that stands further out.
  const sibling = before.findLast((stop) => stop.indent === indent);
  return [previous, parent, sibling].some((stop) => stop && areJoined(stop.path, path)) ? 'import' : undefined;
}

test.each([
  ['From a request to the first delta', 35],
  ["From a tool's result to the next request", 20],
  ['From the death of a worker to the continuation', 20],
])('the walk %s goes from file to file, each once, in at most %i', (walk, most) => {
  const stops = stopsOf(walk);
  const paths = stops.map(({ path }) => path);
  expect(paths.length).toBeGreaterThan(most / 2);
  expect(paths.length).toBeLessThanOrEqual(most);
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  expect(new Set(paths).size).toBe(paths.length);
  const lost = stops.filter((_, index) => index > 0 && wayTo(stops, index) === undefined);
  expect(lost.map(({ path }) => path)).toEqual([]);
});
