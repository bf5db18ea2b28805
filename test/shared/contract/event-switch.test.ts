import { expect, test } from 'vitest';
import { assertNever } from '../../../src/shared/base/errors.ts';
import type { EventOf, RunEvent } from '../../../src/shared/contract/event.ts';

type Ends = EventOf<'run.completed' | 'run.failed' | 'run.cancelled'>;

function wordFor(event: Ends): string {
  switch (event.type) {
    case 'run.completed':
      return 'done';
    case 'run.failed':
      return 'failed';
    case 'run.cancelled':
      return 'cancelled';
    default:
      return assertNever(event);
  }
}

function withOneCaseTooFew(event: Ends): string {
  switch (event.type) {
    case 'run.completed':
      return 'done';
    case 'run.failed':
      return 'failed';
    default:
      // The type check fails here should a case that is left out no longer be an error.
      // @ts-expect-error run.cancelled is left out
      return assertNever(event);
  }
}

function ofAll(event: RunEvent): string {
  if (event.type !== 'run.completed') {
    // @ts-expect-error all other types of events are left out
    return assertNever(event);
  }
  return event.type;
}

test('a switch over events that leaves one out is an error of the type check, and of the program', () => {
  const cancelled = { type: 'run.cancelled' } as Ends;
  expect(wordFor(cancelled)).toBe('cancelled');
  expect(() => withOneCaseTooFew(cancelled)).toThrow('run.cancelled');
  expect(() => ofAll(cancelled)).toThrow('run.cancelled');
});
