import { z } from 'zod';
import { jsonText, storedJson } from '../../base/json.ts';
import { history, type HistoryMessage } from '../../contract/request/history.ts';
import type { KeySpace } from '../keys.ts';

/** Kept so long after its last use. Its thread, once there is one, is kept until a caller deletes it. */
const conversationTtlS = 30 * 86_400;

const stored = z.object({
  createdAt: z.string(),
  metadata: z.record(z.string(), z.string()),
  items: history,
});

/** What is known of a conversation beside its thread. */
export type StoredConversation = Readonly<z.infer<typeof stored>>;

type Space = KeySpace & { readonly tenant: string };

const fields = ({ createdAt, metadata, items }: StoredConversation) => ({
  createdAt,
  metadata: jsonText(metadata),
  items: jsonText(items),
});

export async function writeConversation(
  { redis, keys, tenant }: Space,
  id: string,
  conversation: StoredConversation,
): Promise<void> {
  const key = keys.conversation(tenant, id);
  await redis.multi().hset(key, fields(conversation)).expire(key, conversationTtlS).exec();
}

export async function readConversation(
  { redis, keys, tenant }: Space,
  id: string,
): Promise<StoredConversation | undefined> {
  const { createdAt, metadata = '{}', items = '[]' } = await redis.hgetall(keys.conversation(tenant, id));
  if (createdAt === undefined) return undefined;
  return stored.parse({ createdAt, metadata: storedJson(metadata), items: storedJson(items) });
}

/**
 * What a conversation began with, for the first run in it: its items belong to the run that asks first, and to no other. Counts
 * as a use.
 */
export async function takeItems(
  { redis, keys, tenant }: Space,
  id: string,
  executionId: string,
): Promise<readonly HistoryMessage[]> {
  const key = keys.conversation(tenant, id);
  const [items] = await redis.hmget(key, 'items');
  if (!items || items === '[]') {
    await redis.expire(key, conversationTtlS);
    return [];
  }
  await redis.multi().hsetnx(key, 'takenBy', executionId).expire(key, conversationTtlS).exec();
  return (await redis.hget(key, 'takenBy')) === executionId ? history.parse(storedJson(items)) : [];
}

/** The run that took them was refused. */
export async function returnItems({ redis, keys, tenant }: Space, id: string, executionId: string): Promise<void> {
  const key = keys.conversation(tenant, id);
  if ((await redis.hget(key, 'takenBy')) === executionId) await redis.hdel(key, 'takenBy');
}

/** Answers whether there was one. */
export async function removeConversation({ redis, keys, tenant }: Space, id: string): Promise<boolean> {
  return (await redis.del(keys.conversation(tenant, id))) === 1;
}
