import { redisError } from '../../errors.ts';
import type { RunPlace } from '../../script.ts';
import { forgetSaid, heardBy } from './steer.ts';
import type { Inbox } from './inbox.ts';

/** What users say to runs, in Redis. */
export function redisInbox(place: RunPlace): Inbox {
  const failed = (runId: string) => (error: unknown) => {
    throw redisError(error, `what was said to run ${runId}`);
  };
  return {
    heard: async (runId) => await heardBy(place, runId).catch(failed(runId)),
    drop: async (runId, ids) => await forgetSaid(place, runId, ids).catch(failed(runId)),
  };
}
