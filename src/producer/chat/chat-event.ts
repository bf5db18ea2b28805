import { z } from 'zod';
import { jsonText } from '../../shared/base/json-text.ts';

/** One line of a chat turn. Producers may emit any type; ours are those of the dialect `ndjson-chat`. */
export interface ChatEvent {
  readonly type: string;
  readonly data?: unknown;
}

export const chatTurnIdentity = z.object({
  tenantId: z.string().min(1),
  sessionId: z.string().min(1),
  userId: z.string().min(1),
  turnIndex: z.int().min(0),
});

/** Which turn of whose conversation. Turns are counted from 0. */
export type ChatTurnIdentity = Readonly<z.infer<typeof chatTurnIdentity>>;

/** The same text for the same turn, and never for two. */
export function keyOf({ tenantId, sessionId, userId, turnIndex }: ChatTurnIdentity): string {
  return jsonText([tenantId, sessionId, userId, turnIndex]);
}
