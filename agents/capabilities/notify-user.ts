import { defineTool, type CapabilityParts, type CapabilityContext } from 'millrace/worker';
import { z } from 'zod';

/** Lets an agent tell its user something while nobody is looking. There is nobody to tell where somebody sits in front of it. */
export default function notifyUser({ background, callbacks }: CapabilityContext): CapabilityParts | undefined {
  if (!background) return undefined;
  const tool = defineTool({
    name: 'notify_user',
    description: 'Sends the user a short message, once something happened that cannot wait until they look.',
    inputSchema: z.object({ message: z.string().min(1).max(1_000) }),
    effect: 'once',
    execute({ message }) {
      callbacks.notifyUser(message);
      return 'The user was told.';
    },
  });
  return { tools: [tool] };
}
