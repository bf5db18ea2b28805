import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventBodies } from '../src/shared/contract/event.ts';
import { runnerDefaults, type RunnerCallbacks } from '../src/worker/index.ts';
import { firstCells } from './support/markdown.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/runner.md'), 'utf8');

test('the page lists exactly the callbacks that there are, each with an event that exists', () => {
  // The compiler keeps this record complete.
  const callbacks = {
    onThinking: 1,
    onAssistantMessage: 1,
    onToolUse: 1,
    onToolUseSummary: 1,
    onEvent: 1,
    onResponse: 1,
    onError: 1,
    onFileSend: 1,
    onShareNote: 1,
    onPinChange: 1,
    onNotifyUser: 1,
  } as const satisfies Record<keyof RunnerCallbacks, 1>;
  expect(firstCells(page, 'Callbacks')).toEqual(Object.keys(callbacks));
  const events = [...page.matchAll(/^\| `on\w+` .*\| `([a-z_.]+)` +\|$/gm)].map(([, type]) => type);
  expect(events).toHaveLength(Object.keys(callbacks).length - 1);
  for (const type of events) expect(Object.keys(eventBodies)).toContain(type);
});

test('the page lists exactly the parts of a runner', () => {
  expect(new Set(firstCells(page, 'What it works with'))).toEqual(
    new Set(Object.keys(runnerDefaults({ agents: [], env: {} }))),
  );
});
