import { z } from 'zod';
import { definePackageTool } from '../define.ts';
import type { Tool } from '../tool.ts';
import type { CapabilityResolver } from '../capabilities.ts';

const inputSchema = z.strictObject({
  question: z.string().min(1).max(4_000).describe('One question, in the language of the user.'),
  choices: z.array(z.string().min(1).max(200)).max(20).optional().describe('Answers to choose from, if any.'),
});

/** The tool that asks the user: the run waits, without a worker, and the answer is the result of the call. */
export function createAskUser(): Tool {
  const tool = definePackageTool({
    name: 'ask_user',
    description:
      'Asks the user a question and answers what they say. Use it only for what you cannot find out yourself: the answer may take long.',
    inputSchema,
    effect: 'read',
    sideEffectClass: 'interaction',
    execute: () => 'no person could be asked',
  });
  return Object.freeze({
    ...tool,
    asks: (args: unknown) => {
      const { question, choices = [] } = args as z.output<typeof inputSchema>;
      return choices.length === 0 ? question : `${question} (${choices.join(' / ')})`;
    },
  });
}

/** Lets a run in the background notify its user. A user who waits for the run needs no notification. */
export const notifyUser: CapabilityResolver = ({ background, callbacks }) => {
  if (!background) return undefined;
  const tool = definePackageTool({
    name: 'notify_user',
    description: 'Sends the user a short message, once something happened that cannot wait until they look.',
    inputSchema: z.strictObject({ message: z.string().min(1).max(1_000) }),
    effect: 'once',
    execute({ message }) {
      callbacks.notifyUser(message);
      return 'The user was notified.';
    },
  });
  return { tools: [tool] };
};
