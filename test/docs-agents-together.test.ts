import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { handoffFilterDescriptor } from '../src/shared/contract/handoff/handoff.ts';
import { filters } from '../src/shared/contract/handoff/handoff-filters.ts';
import { maxChildren, type MergeStrategy } from '../src/worker/orchestration/fan-out-options.ts';
import { childStatus } from '../src/worker/agents/define-judge.ts';
import type { Termination } from '../src/worker/orchestration/evaluator-optimizer.ts';
import type { Rubric } from '../src/worker/orchestration/rubric.ts';
import { graceMs } from '../src/shared/base/deadline.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/agents-together.md'), 'utf8');

/** Rows of the table whose header begins with this word, without backticks. */
function rows(header: string): string[][] {
  const lines = page.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`| ${header} `));
  const length = lines.slice(start).findIndex((line) => !line.startsWith('|'));
  return lines.slice(start + 2, start + length).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll('`', '')),
  );
}

const firsts = (header: string) => rows(header).map(([first = '']) => first);

test('the page lists exactly the filters that there are, and the kinds of their descriptors', () => {
  expect(firsts('filter').map((cell) => cell.replace(/\(.*/, ''))).toEqual(Object.keys(filters));
  const schema = JSON.stringify(z.toJSONSchema(handoffFilterDescriptor));
  const kinds = new Set([...schema.matchAll(/"kind":\{"type":"string","const":"([a-z-]+)"/g)].map(([, kind]) => kind));
  expect(new Set(rows('filter').map((cells) => cells[2]))).toEqual(kinds);
});

test('the page lists exactly the strategies, rubrics and terminations that there are', () => {
  // The compiler keeps these records complete.
  const strategies = { concat: 1, 'first-success': 1, 'judge-merge': 1, custom: 1 } as const satisfies Record<
    MergeStrategy['kind'],
    1
  >;
  const rubrics = { 'free-form': 1, zod: 1, 'llm-judge': 1 } as const satisfies Record<Rubric['kind'], 1>;
  const terminations = { pass: 1, maxIterations: 1, 'generator-exhausted': 1, cancelled: 1 } as const satisfies Record<
    Termination,
    1
  >;
  expect(firsts('merge strategy')).toEqual(Object.keys(strategies));
  expect(firsts('rubric')).toEqual(Object.keys(rubrics));
  expect(firsts('termination')).toEqual(Object.keys(terminations));
});

test('the page has the numbers of the code', () => {
  for (const status of childStatus.options) expect(page).toContain(`\`${status}\``);
  expect(page).toContain(`1 to ${maxChildren}`);
  expect(page).toContain(`has ${graceMs} ms to answer`);
});
