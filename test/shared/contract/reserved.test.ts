import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { errorTable } from '../../../src/shared/base/errors.ts';
import { eventBodies, eventEnvelope } from '../../../src/shared/contract/event.ts';
import { reservedErrorCodes, reservedEvents } from '../../../src/shared/contract/reserved.ts';

const root = join(import.meta.dirname, '../../..');
const sourcesOf = (pattern: string) =>
  globSync(pattern, { cwd: root }).map((path) => readFileSync(join(root, path), 'utf8'));

/** Files that emit events. Those that translate or show them are left out. */
const emitters = sourcesOf(
  'src/{worker/{run,orchestration,agents,admission,turn,tools},producer/client,shared/state}/**/*.ts',
);

/** Is there an object literal with this field? */
function writes(source: string, field: string): boolean {
  return new RegExp(`[{,(]\\s*${field}\\s*[,:}]|^\\s*${field}\\s*[,:]`, 'm').test(source);
}

test('each optional field of an event is set where the event is emitted, unless its type is reserved', () => {
  const optional = Object.entries(eventBodies)
    .filter(([type]) => !(type in reservedEvents))
    .flatMap(([type, { shape }]) =>
      Object.entries(shape as Record<string, { isOptional(): boolean }>)
        .filter(([, schema]) => schema.isOptional())
        .map(([field]) => ({ type, field })),
    );
  expect(optional.length).toBeGreaterThan(30);
  const unset = optional.filter(
    ({ type, field }) => !emitters.some((source) => source.includes(`'${type}'`) && writes(source, field)),
  );
  expect(unset).toEqual([]);
});

test('each field of the envelope is set somewhere', () => {
  const fields = Object.keys(eventEnvelope.shape);
  expect(fields).toContain('runId');
  const ofScripts = ['v', 'sequenceNumber'];
  const unset = fields.filter((field) => !emitters.some((source) => writes(source, field)));
  expect(unset.filter((field) => !ofScripts.includes(field))).toEqual([]);
});

test('each error code is raised somewhere, or reserved', () => {
  const raisers = globSync('src/**/*.ts', { cwd: root })
    .filter((path) => !path.endsWith('base/errors.ts') && !path.endsWith('contract/reserved.ts'))
    .map((path) => readFileSync(join(root, path), 'utf8'))
    .join('\n');
  const silent = Object.keys(errorTable).filter(
    (code) => !new RegExp(`(RunError\\(|refused\\(|code:|[?:])\\s*'${code}'`).test(raisers),
  );
  expect(silent).toEqual([...reservedErrorCodes]);
});
