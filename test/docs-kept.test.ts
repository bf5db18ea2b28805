import { expect, test } from 'vitest';
import { configSchema } from '../src/shared/contract/config.ts';
import { docsPage } from './support/docs-page.ts';

const units: Readonly<Record<string, number>> = { minutes: 60, hours: 3_600, days: 86_400 };
const unitOfSetting = { _MS: 0.001, _S: 1, _DAYS: 86_400 } as const;

test('the page about what is kept has the defaults of the settings', () => {
  const rows = [...docsPage('what-is-kept.md').matchAll(/\| `([A-Z_]+)` +\| (\d+) (minutes|hours|days) +\|/g)];
  expect(rows.length).toBeGreaterThan(7);
  const defaults: Record<string, unknown> = configSchema.parse({});
  for (const [, name = '', count, unit = ''] of rows) {
    const [, factor = 0] = Object.entries(unitOfSetting).find(([suffix]) => name.endsWith(suffix)) ?? [];
    expect([name, Number(defaults[name]) * factor]).toEqual([name, Number(count) * (units[unit] ?? 0)]);
  }
});

test('no kind of key that holds what users wrote is missing on the page', () => {
  const page = docsPage('what-is-kept.md');
  for (const kind of ['journal', 'events', 'decisions', 'large results', 'files', 'progress notes', 'jobs', 'threads'])
    expect(page).toContain(kind);
});
