import { connect, whenReady, mastersOf } from '../../../shared/state/connect.ts';

const pageSize = 500;

/** Removes every key of a prefix from the user's own Redis; a private one vanishes anyway, so no URL means no work. */
export async function cleanPrefix(url: string | undefined, prefix: string): Promise<void> {
  if (!url) return;
  const redis = connect(url, 'command', () => {});
  try {
    await whenReady(redis, 2_000);
    for (const node of mastersOf(redis)) {
      for (const pattern of [`${prefix}:*`, `{${prefix}}:*`]) {
        let cursor = '0';
        do {
          const [next, keys] = await node.scan(cursor, 'MATCH', pattern, 'COUNT', pageSize);
          // One by one: in a Cluster the keys of a page need not share a slot.
          await Promise.all(keys.map((key) => node.unlink(key)));
          cursor = next;
        } while (cursor !== '0');
      }
    }
  } finally {
    redis.disconnect();
  }
}
