import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> };

test.each(['start', 'demo', 'test', 'test:slow', 'test:soak', 'test:all', 'check', 'build', 'bench'])(
  'npm run %s sets up what is missing first',
  (name) => {
    expect(scripts[name]).toBeTruthy();
    expect(scripts[`pre${name}`]).toMatch(/^node scripts\/setup\.mjs/);
  },
);

test('npm run check looks at format, rules, types, declarations, unused code and arrows', () => {
  const tools = scripts['check']?.split(' && ').map((step) => step.split(' ')[0]);
  expect(tools).toEqual(['oxfmt', 'oxlint', 'tsc', 'tsc', 'tsc', 'knip', 'vitest']);
});

test('a signal that npm passes on reaches the stack and not a shell', () => {
  for (const name of ['start', 'demo']) expect(scripts[name]).toMatch(/^exec node bin\/millrace\.mjs /);
});

test('what continuous integration runs is there, can be run, and leaves out only what needs a machine for itself', () => {
  const path = join(root, '.ci/run');
  expect(existsSync(path)).toBe(true);
  expect(statSync(path).mode & 0o111).toBe(0o111);
  const steps = readFileSync(path, 'utf8').match(/^(?:step|tests) .+$/gm);
  expect(steps).toEqual([
    'step npm ci',
    'step npm run check',
    'step npm run build',
    'tests npm test',
    'tests npm run test:slow',
    'step npm run demo',
  ]);
});
