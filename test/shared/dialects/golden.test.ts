import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createProjector, dialectNames, readFrom, type DialectName } from '../../../src/shared/dialects/project.ts';
import { eventSchema, isTerminal, parseEvent, type RunEvent } from '../../../src/shared/contract/event.ts';

const folder = join(import.meta.dirname, '../../fixtures/dialects');
const scenarios = globSync('*.native.jsonl', { cwd: folder }).map((file) => file.replace('.native.jsonl', ''));
const context = { tenant: 'default' };

function recorded(scenario: string): RunEvent[] {
  return readFileSync(join(folder, `${scenario}.native.jsonl`), 'utf8')
    .trimEnd()
    .split('\n')
    .map(parseEvent);
}

/** What a reader gets that resumes after a number: the machine is fed from where the dialect says. */
function projected(name: DialectName, events: readonly RunEvent[], after = 0): string[] {
  const from = readFrom(name, after);
  const project = createProjector(name, context, after);
  return events
    .filter(({ sequenceNumber }) => sequenceNumber > from)
    .flatMap(project)
    .map((event) => JSON.stringify(event));
}

/** Types of messages by the type of the event that became them, over all recorded runs that were started. */
function mapping(name: DialectName): Map<string, string> {
  const types = new Map<string, Set<string>>();
  for (const scenario of scenarios.filter((candidate) => candidate !== 'cancelled-in-queue')) {
    const project = createProjector(name, context);
    for (const event of recorded(scenario)) {
      const seen = types.get(event.type) ?? new Set();
      for (const { type } of project(event)) seen.add(`\`${type}\``);
      types.set(event.type, seen);
    }
  }
  return new Map([...types].map(([type, seen]) => [type, [...seen].join(', ') || '–']));
}

const cases = scenarios.flatMap((scenario) => dialectNames.map((name) => [scenario, name] as const));

test('there is a log for every way in which a run can go', () => {
  expect(new Set(scenarios)).toEqual(
    new Set([
      'approval',
      'budget',
      'cancelled',
      'cancelled-in-queue',
      'degraded',
      'failed',
      'fallback',
      'node',
      'node-media',
      'reasoning',
      'recovered',
      'structured',
      'text',
      'timeout',
      'tools',
    ]),
  );
});

test.each(scenarios)('the log %s is one that a worker could have written', (scenario) => {
  const events = recorded(scenario);
  for (const event of events) eventSchema.parse(event);
  expect(events.map(({ sequenceNumber }) => sequenceNumber)).toEqual(events.map((_, index) => index + 1));
  expect(events.map(isTerminal)).toEqual(events.map((_, index) => index === events.length - 1));
});

// After a change that is meant: npx vitest run --project unit test/shared/dialects --update
test.each(cases)('%s in %s reads as it always did', async (scenario, name) => {
  const lines = projected(name, recorded(scenario));
  await expect(lines.map((line) => `${line}\n`).join('')).toMatchFileSnapshot(
    join(folder, `${scenario}.${name}.jsonl`),
  );
});

test.each(cases)('%s in %s goes on after any number as if it had never broken off', (scenario, name) => {
  const events = recorded(scenario);
  for (const { sequenceNumber: last } of events) {
    const before = projected(name, events.slice(0, last));
    expect([...before, ...projected(name, events, last)]).toEqual(projected(name, events));
  }
});

test('the page says what becomes of which event', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/dialects.md'), 'utf8');
  const rows = page.split('\n').filter((line) => line.startsWith('| `') || line.startsWith('| event'));
  const cells = rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  const head = cells.find(([first]) => first === 'event') ?? [];
  expect(head.slice(1)).toEqual(dialectNames.map((name) => `\`${name}\``));
  const table = cells.filter((row) => row.length === head.length && row !== head);
  for (const [column, name] of dialectNames.entries()) {
    const known = mapping(name);
    const projected = [...known].filter(([, types]) => types !== '–').map(([type]) => `\`${type}\``);
    expect(table.map(([type]) => type)).toEqual(expect.arrayContaining(projected));
    for (const row of table) expect([row[0], row[column + 1]]).toEqual([row[0], known.get(row[0]?.slice(1, -1) ?? '')]);
  }
  const remembers = cells.filter(
    (row) => row.length === 3 && dialectNames.includes(row[0]?.slice(1, -1) as DialectName),
  );
  expect(remembers.map(([name, , answer]) => [name, answer])).toEqual(
    dialectNames.map((name) => [`\`${name}\``, readFrom(name, 1) === 0 ? 'yes' : 'no']),
  );
});
