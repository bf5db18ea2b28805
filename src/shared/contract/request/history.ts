import { z } from 'zod';
import { jsonText } from '../../base/json.ts';
import { mentionsSecrets } from '../../base/template-syntax.ts';
import { flowLabel, type Message } from '../message.ts';

/** What is said before the input of a run may be as large as the input itself. */
export const maxHistoryBytes = 256 * 1024;
export const maxHistoryMessages = 1_000;
export const maxInstructionsBytes = 32 * 1024;

const content = z.string().min(1, 'must not be empty');

/** A message that was said before the input of a run, by the word of its caller. */
export const historyMessage = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('user'), content }),
  z.strictObject({
    role: z.literal('assistant'),
    content,
    /** What its author had read. Absent: by the caller's word it is as trusted as what the caller says. */
    flow: flowLabel.optional(),
  }),
]);
export type HistoryMessage = z.infer<typeof historyMessage>;

export const history = z
  .array(historyMessage)
  .max(maxHistoryMessages)
  .refine(
    (messages) => Buffer.byteLength(jsonText(messages)) <= maxHistoryBytes,
    `at most ${maxHistoryBytes} bytes as JSON`,
  );

/** What a caller adds behind the instructions of an agent, as it stands: nothing in it is expanded. */
export const addedInstructions = z
  .string()
  .refine((text) => Buffer.byteLength(text) <= maxInstructionsBytes, `at most ${maxInstructionsBytes} bytes`)
  .refine((text) => !mentionsSecrets(text), 'must not refer to {{ secrets.* }}');

/** The conversation that a run begins with, as models see it. */
export function messagesOf(said: readonly HistoryMessage[]): readonly Message[] {
  return said.map((message): Message => {
    if (message.role === 'user') return message;
    const { content: text, flow } = message;
    return { role: 'assistant', parts: [{ type: 'text', text }], ...(flow && { flow }) };
  });
}
