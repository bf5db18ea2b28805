import { defineTool, type CapabilityParts, type CapabilityContext } from 'millrace/worker';
import { z } from 'zod';

/** Lets an agent give its user a note; the subscriber of its event shows it. */
export default function shareNote({ callbacks }: CapabilityContext): CapabilityParts {
  const tool = defineTool({
    name: 'share_note',
    description: 'Shares a note with the user, under a short name that later notes can replace.',
    inputSchema: z.object({ title: z.string().min(1).max(200), slug: z.string().regex(/^[a-z0-9-]{1,64}$/) }),
    effect: 'once',
    execute({ title, slug }) {
      callbacks.shareNote({ title, slug });
      return 'The note was shared.';
    },
  });
  return { tools: [tool] };
}
