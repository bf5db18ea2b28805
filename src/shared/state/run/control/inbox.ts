import { type SteeringMessage, steeringMessage } from '../../../contract/control.ts';
import { runIdForChild } from '../../../base/ids.ts';
import { jsonText } from '../../../base/json.ts';
import type { KeySpace } from '../../keys.ts';
import { loadScript, runScript } from '../../script.ts';
import { withNamedErrors } from '../../errors.ts';

/** Messages of users to running runs. Kept in Redis and in memory; both pass `test/contract/inbox.ts`. */
export interface Inbox {
  /** All messages that were not dropped, oldest first, at most 100. */
  read(runId: string): Promise<readonly SteeringMessage[]>;
  /** Removes these, once the journal or runs of their own have them. Others stay, also for a repeat. */
  drop(runId: string, ids: Iterable<string>): Promise<void>;
}

const script = loadScript(import.meta.url, './steer.lua');

/** Messages that a run has not read yet. */
export const maxInbox = 100;
/** A run may be suspended for long; its messages wait with it. */
const keepS = 30 * 86_400;

/**
 * Adds a message to the inbox of a run, which reads it before its next step, or before it ends. `late`: it has ended, is about
 * to, or has not begun; `full`: too many wait already. Again with the same id changes nothing.
 */
export async function steerRun(
  { redis, keys }: KeySpace,
  runId: string,
  message: SteeringMessage,
): Promise<'delivered' | 'late' | 'full'> {
  const args = [message.id, jsonText(message), maxInbox, keepS];
  const doing = `message to run ${runId}`;
  const reply = await runScript(redis, script, [keys.run(runId), keys.inbox(runId)], args, { doing });
  if (reply === -1) return 'full';
  return reply === 1 ? 'delivered' : 'late';
}

/** The run that answers a message that came too late for the run it was meant for. */
export function followUpId(runId: string, messageId: string): string {
  return runIdForChild(runId, `followup:${messageId}`);
}

/** The inboxes in Redis. */
export function redisInbox({ redis, keys }: KeySpace): Inbox {
  const textsOf = async (runId: string) => await redis.lrange(keys.inbox(runId), 0, -1);
  return withNamedErrors('inbox', {
    async read(runId) {
      return (await textsOf(runId)).map(messageIn);
    },
    // By its text: an index in the list may be another message by now.
    async drop(runId, ids) {
      const dropped = new Set(ids);
      if (dropped.size === 0) return;
      const gone = (await textsOf(runId)).filter((text) => dropped.has(messageIn(text).id));
      await Promise.all(gone.map((text) => redis.lrem(keys.inbox(runId), 1, text)));
    },
  });
}

function messageIn(text: string): SteeringMessage {
  return steeringMessage.parse(JSON.parse(text));
}
