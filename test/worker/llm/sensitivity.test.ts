import { expect, test } from 'vitest';
import type { Message } from '../../../src/shared/contract/message.ts';
import { withinSensitivity } from '../../../src/worker/llm/candidate.ts';

const result = (content: string, sensitivity?: 'public' | 'internal' | 'secret'): Message => ({
  role: 'tool',
  toolCallId: content,
  toolName: 'lookup',
  content,
  ...(sensitivity && { sensitivity }),
});
const messages: readonly Message[] = [
  { role: 'user', content: 'hi' },
  result('plain'),
  result('inner', 'internal'),
  result('deep', 'secret'),
];
const contents = (accepts?: readonly ('public' | 'internal' | 'secret')[]) =>
  withinSensitivity(messages, accepts).map((message) => ('content' in message ? message.content : ''));
const notice = (label: string) =>
  `[the result of lookup is withheld: it is ${label}, and this model's provider may not see ${label} data]`;

test.each([
  [
    ['public', 'internal', 'secret'],
    ['hi', 'plain', 'inner', 'deep'],
  ],
  [
    ['public', 'internal'],
    ['hi', 'plain', 'inner', notice('secret')],
  ],
  [['public'], ['hi', 'plain', notice('internal'), notice('secret')]],
  [undefined, ['hi', 'plain', notice('internal'), notice('secret')]],
  [['secret'], ['hi', notice('public'), notice('internal'), 'deep']],
  [[], ['hi', notice('public'), notice('internal'), notice('secret')]],
] as const)('a provider that accepts %j sees %j', (accepts, seen) => {
  expect(contents(accepts)).toEqual(seen);
});

test('what is withheld still answers its call', () => {
  expect(withinSensitivity(messages, ['public'])[3]).toMatchObject({ role: 'tool', toolCallId: 'deep' });
});

test('nothing is copied when nothing is withheld', () => {
  expect(withinSensitivity(messages, ['public', 'internal', 'secret'])).toBe(messages);
});
