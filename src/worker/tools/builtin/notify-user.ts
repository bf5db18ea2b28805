import { z } from 'zod';
import type { CapabilityResolver } from '../capabilities.ts';
import { defineTool } from '../define.ts';

/** Lets a run in the background notify its user. A user who waits for the run needs no notification. */
export const notifyUser: CapabilityResolver = ({ background, callbacks }) => {
  if (!background) return undefined;
  const tool = defineTool({
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
