import { type SteeringMessage, steeringMessage } from '../../../contract/control.ts';
import { runIdForChild } from '../../../base/ids.ts';
import { jsonText } from '../../../base/json-text.ts';
import { loadScript, runScript, type RunKeySpace } from '../../script.ts';
import { withNamedErrors } from '../../errors.ts';

/** What users say to runs that are at work. Kept in Redis and in memory; both pass `test/contract/inbox.ts`. */
export interface Inbox {
  /** All that was said and not dropped, oldest first, at most 100. */
  read(runId: string): Promise<readonly SteeringMessage[]>;
  /** Forgets these, once the journal has them or runs of their own do. Others stay, also when it is asked again. */
  drop(runId: string, ids: Iterable<string>): Promise<void>;
}

const script = loadScript(import.meta.url, './steer.lua');

/** Messages that a run has not taken yet. */
export const maxInbox = 100;
/** A run may be suspended for long; what it was told waits with it. */
const keepS = 30 * 86_400;

/**
 * Says something to a run at work, which takes it before its next step, or before it ends. `late`: it has ended, is about
 * to, or has not begun; `full`: too much waits already. Again with the same id changes nothing.
 */
export async function steerRun(
  { redis, keys }: RunKeySpace,
  runId: string,
  message: SteeringMessage,
): Promise<'said' | 'late' | 'full'> {
  const reply = await runScript(
    redis,
    script,
    [keys.run(runId), keys.inbox(runId)],
    [message.id, jsonText(message), maxInbox, keepS],
    { doing: `message to run ${runId}` },
  );
  if (reply === -1) return 'full';
  return reply === 1 ? 'said' : 'late';
}

/** The run that answers what was said to a run too late for it to hear. */
export function followUpId(runId: string, messageId: string): string {
  return runIdForChild(runId, `followup:${messageId}`);
}

/** The inboxes in Redis. */
export function redisInbox({ redis, keys }: Pick<RunKeySpace, 'redis' | 'keys'>): Inbox {
  const textsOf = async (runId: string) => await redis.lrange(keys.inbox(runId), 0, -1);
  return withNamedErrors('inbox', {
    async read(runId) {
      return (await textsOf(runId)).map(messageIn);
    },
    // By its text: a place in the list may be another message by now.
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
