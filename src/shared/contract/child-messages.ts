import { z } from 'zod';

/** With this argument a worker reads its agents and then waits until its parent says `go`. */
export const standbyArgument = '--standby';

/** What an entry sends over its IPC channel. */
export const childMessage = z.discriminatedUnion('type', [
  /** It serves. */
  z.object({ type: z.literal('ready') }),
  /** A worker that stands by has read its agents: their ids, and all modules that they are made of, without packages. */
  z.object({ type: z.literal('loaded'), agents: z.array(z.string()), files: z.array(z.string()) }),
  /** It found these problems instead, and ends. */
  z.object({ type: z.literal('problems'), problems: z.array(z.string()) }),
]);
export type ChildMessage = z.infer<typeof childMessage>;

/** What its parent sends to a worker that stands by. */
export const parentMessage = z.object({ type: z.literal('go') });
