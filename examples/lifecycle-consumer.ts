// Reacts to every end of a run, also to those that came while this program was away. It reads the stream of lifecycle events in
// a consumer group, so several copies of it share the work. `npm install ioredis` in a project of your own.
// Run it with `npm run example examples/lifecycle-consumer.ts`; REDIS_URL is the one that `npm start` prints.

import { Redis } from 'ioredis';

const redis = new Redis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379');
const stream = `${process.env['MILLRACE_PREFIX'] ?? 'mr'}:lifecycle`;
const group = 'mailer';
const consumer = `mailer-${process.pid}`;
const ends = new Set(['run.completed', 'run.failed', 'run.cancelled']);
// How many ends to wait for; without a number it runs until Ctrl-C.
const most = Number(process.argv[2] ?? Infinity);

// `0`: from the oldest that the stream still has. A group that exists keeps its position.
await redis.xgroup('CREATE', stream, group, '0', 'MKSTREAM').catch(ignoreExisting);

let seen = 0;
// First what an earlier life of this consumer took and did not finish, then what is new.
for (let from = '0'; seen < most;) {
  const read = await redis.xreadgroup('GROUP', group, consumer, 'COUNT', 100, 'BLOCK', 5_000, 'STREAMS', stream, from);
  const [[, entries] = [stream, []]] = (read ?? []) as [string, [string, string[]][]][];
  if (entries.length === 0) from = '>';
  for (const [id, [, json = '']] of entries) {
    const event = JSON.parse(json) as { type: string; runId: string; sequenceNumber: number };
    if (ends.has(event.type)) {
      await react(event);
      seen++;
    }
    // Only now: an entry that is not acknowledged comes again.
    await redis.xack(stream, group, id);
  }
}
redis.disconnect();

/** Your reaction. It may happen twice for one run: make it idempotent by `runId`. */
async function react({ type, runId }: { type: string; runId: string }): Promise<void> {
  console.log(`${runId} ${type}`);
}

function ignoreExisting(error: Error): void {
  if (!error.message.startsWith('BUSYGROUP')) throw error;
}
