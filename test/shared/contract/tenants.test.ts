import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import { loadTenants } from '../../../src/shared/contract/tenants.ts';

/** A file with these lines that is gone after the test. */
function fileOf(...lines: string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-tenants-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'tenants.yaml');
  writeFileSync(path, lines.join('\n'));
  return path;
}

function refusalOf(path: string): unknown {
  try {
    return loadTenants(path);
  } catch (error) {
    return error;
  }
}

function problemsOf(path: string): readonly string[] {
  const error = refusalOf(path);
  if (error instanceof RunError && error.code === 'invalid_config') return error.details as readonly string[];
  throw new Error('the file was not refused', { cause: error });
}

test('without a file every tenant weighs 1 and has no cap', () => {
  expect(loadTenants(undefined).of('acme')).toEqual({ weight: 1 });
});

test('a tenant has its own entry, and what that leaves out from the default', () => {
  const tenants = loadTenants(
    fileOf(
      'default:',
      '  weight: 2',
      '  budget: { maxCostUsd: 1.5, window: day }',
      'tenants:',
      '  acme: { budget: { maxCostMicrocents: 700, window: month, onExceed: pause_for_approval, unpriced: deny } }',
      '  big: { weight: 10 }',
      '  free: { budget: { maxCostUsd: 0, window: day } }',
    ),
  );
  const common = { capMicrocents: 150_000_000, window: 'day', onExceed: 'fail', unpriced: 'allow' };
  expect(tenants.of('anyone')).toEqual({ weight: 2, budget: common });
  expect(tenants.of('acme')).toEqual({
    weight: 2,
    budget: { capMicrocents: 700, window: 'month', onExceed: 'pause_for_approval', unpriced: 'deny' },
  });
  expect(tenants.of('big')).toEqual({ weight: 10, budget: common });
  expect(tenants.of('free')).toEqual({ weight: 2 });
  expect(tenants.of('constructor')).toEqual(tenants.of('anyone'));
});

test('a wrong file is refused with every problem in it and where it is', () => {
  const path = fileOf(
    'default: { weight: 0, budget: { window: day } }',
    'colour: red',
    'tenants:',
    '  "a b": { weight: 1 }',
    '  acme: { weight: many, wieght: 1, budget: { maxCostUsd: 1, maxCostMicrocents: 1, window: day } }',
    '  other: { budget: { maxCostUsd: .inf, window: week, onExceed: explode } }',
  );
  const problems = problemsOf(path);
  for (const problem of problems) expect(problem.startsWith(`${path}: `)).toBe(true);
  const text = problems.join('\n');
  for (const named of [
    'default.weight',
    'default.budget: give maxCostUsd or maxCostMicrocents',
    'colour',
    'tenants.a b',
    'tenants.acme.weight',
    'wieght',
    'tenants.acme.budget: give maxCostUsd or maxCostMicrocents',
    'tenants.other.budget.maxCostUsd',
    'tenants.other.budget.window',
    'tenants.other.budget.onExceed',
  ]) {
    expect(text).toContain(named);
  }
});

test('a file that is not YAML, is empty or cannot be read is refused', () => {
  expect(problemsOf(fileOf('tenants: [', ' x'))).not.toEqual([]);
  expect(problemsOf(fileOf(''))).not.toEqual([]);
  expect(() => loadTenants(join(tmpdir(), 'no-such-file.yaml'))).toThrow('cannot read');
});
