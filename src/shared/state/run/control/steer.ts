import { steeringMessage, type SteeringMessage } from '../../../contract/control.ts';
import { runIdForChild } from '../../../base/ids.ts';
import { jsonText } from '../../../base/json-text.ts';
import { loadScript, runScript, type RunPlace } from '../../script.ts';

const script = loadScript(import.meta.url, './steer.lua');

/** Messages that a run has not taken yet. */
export const maxHeard = 100;
/** A run may be suspended for long; what it was told waits with it. */
const keepS = 30 * 86_400;

/**
 * Says something to a run at work, which takes it before its next step, or before it ends. `late`: it has ended, is about
 * to, or has not begun; `full`: too much waits already. Again with the same id changes nothing.
 */
export async function sayToRun(
  { redis, keys }: RunPlace,
  runId: string,
  message: SteeringMessage,
): Promise<'said' | 'late' | 'full'> {
  const reply = await runScript(
    redis,
    script,
    [keys.run(runId), keys.inbox(runId)],
    [message.id, jsonText(message), maxHeard, keepS],
    { doing: `message to run ${runId}` },
  );
  if (reply === -1) return 'full';
  return reply === 1 ? 'said' : 'late';
}

/** The run that answers what was said to a run too late for it to hear. */
export function followUpId(runId: string, messageId: string): string {
  return runIdForChild(runId, `followup:${messageId}`);
}

/** What was said to a run and not forgotten. */
export async function heardBy({ redis, keys }: RunPlace, runId: string): Promise<readonly SteeringMessage[]> {
  const texts = await redis.lrange(keys.inbox(runId), 0, -1);
  return texts.map(messageIn);
}

/**
 * Forgets these messages and no other, however often and by whomever that is asked: a place in the list may be another
 * message by now.
 */
export async function forgetSaid({ redis, keys }: RunPlace, runId: string, ids: Iterable<string>): Promise<void> {
  const forgotten = new Set(ids);
  if (forgotten.size === 0) return;
  const inbox = keys.inbox(runId);
  const texts = await redis.lrange(inbox, 0, -1);
  const gone = texts.filter((text) => forgotten.has(messageIn(text).id));
  await Promise.all(gone.map((text) => redis.lrem(inbox, 1, text)));
}

function messageIn(text: string): SteeringMessage {
  return steeringMessage.parse(JSON.parse(text));
}
