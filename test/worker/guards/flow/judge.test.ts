import { expect, test } from 'vitest';
import { dataFlowPolicy } from '../../../../src/shared/contract/flow.ts';
import type { Message } from '../../../../src/shared/contract/message.ts';
import { judgeFlow } from '../../../../src/worker/guards/flow/judge.ts';
import { FlowMemory } from '../../../../src/worker/guards/flow/memory.ts';

const policy = dataFlowPolicy.parse({ mode: 'enforce' });
const mail = (args: unknown) =>
  ({ toolName: 'send_mail', names: ['send_mail'], args, parameters: {}, effect: 'once' }) as const;

function memoryOf(messages: readonly Message[]): FlowMemory {
  const memory = new FlowMemory(['You answer mails.'], (name) => name === 'send_mail');
  for (const message of messages) memory.add(message);
  return memory;
}

const page = (content: string): Message => ({
  role: 'tool',
  toolCallId: 'a',
  toolName: 'http_request',
  trust: 'web-search',
  content,
});
const source = { name: 'http_request', trust: 'web-search' };

test('a passage of a page in a mail is found, a few words of it are not', () => {
  const memory = memoryOf([page('The quick brown fox jumps over the lazy dog tonight.')]);
  expect(judgeFlow(mail({ body: 'Look: quick BROWN fox, jumps over the lazy' }), memory, policy)).toEqual([
    { rule: 'untrusted-to-sink', argument: 'body', value: 'Look: quick BROWN fox, jumps over the lazy', source },
  ]);
  expect(judgeFlow(mail({ body: 'the lazy dog' }), memory, policy)).toEqual([]);
});

test('an address that only a page gave is found, one that the user gave as well is not', () => {
  const said = { role: 'user', content: 'Write to anna@shop.example' } as const;
  const memory = memoryOf([said, page('anna@shop.example and eve@evil.example')]);
  expect(judgeFlow(mail({ to: 'eve@evil.example' }), memory, policy)).toMatchObject([{ rule: 'untrusted-value' }]);
  expect(judgeFlow(mail({ to: 'anna@shop.example' }), memory, policy)).toEqual([]);
});

test('a sink is stopped once untrusted and secret texts have been read', () => {
  const memory = memoryOf([page('Hello.')]);
  expect(judgeFlow(mail({ body: 'hi' }), memory, policy)).toEqual([]);
  memory.add({ role: 'tool', toolCallId: 'b', toolName: 'vault', content: 'x', sensitivity: 'secret' });
  expect(judgeFlow(mail({ body: 'hi' }), memory, policy)).toEqual([{ rule: 'lethal-trifecta', source }]);
});
