import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import * as worker from '../../src/worker/index.ts';

const door = readFileSync(join(import.meta.dirname, '../../src/worker/index.ts'), 'utf8');

test('neither the loop of a turn nor its parameters are exported, and what makes node executors is', () => {
  expect(Object.keys(worker)).toContain('createAgentNodeExecutor');
  for (const name of ['runTurn', 'runJob', 'createAgentWith', 'createToolExecutor', 'foldJournal', 'FallbackChain'])
    expect(Object.keys(worker)).not.toContain(name);
  // Types leave no trace in what is imported.
  const names = [...door.matchAll(/\b(Turn[A-Z]\w*|TurnState|ToolHost|JobOutcome|RunDeps)\b/g)].map(([name]) => name);
  expect(names.filter((name) => name !== 'TurnOfSession')).toEqual([]);
});
