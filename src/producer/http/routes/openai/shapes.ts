import { z } from 'zod';
import { wholeNumberParam } from '../../openapi.ts';

/** Requests bring pictures and documents with them, in base64. */
export const maxWireBodyBytes = 48 * 1024 * 1024;

export const askingHeaders = z.object({
  'idempotency-key': z.string().optional().describe('The same key with the same body is the same run.'),
  'x-stainless-retry-count': z
    .string()
    .optional()
    .describe('Sent by the clients of OpenAI. Above 0, the run of the first try answers, for ten minutes.'),
});

/** `true` and `false` in a query. */
export const flagParam = z.enum(['true', 'false']).transform((text) => text === 'true');

/** A page of a list, as OpenAI's API asks for it. */
export const pageParams = z.object({
  after: z.string().max(256).optional().describe('Only what comes after the item with this id.'),
  limit: wholeNumberParam(1, 100).optional().describe('Default 20.'),
  order: z.enum(['asc', 'desc']).optional().describe('By time. Default `desc`: newest first.'),
});

/** A list, as OpenAI's API answers it. */
export function listShape<T extends z.ZodType>(item: T) {
  return z.object({
    object: z.literal('list'),
    data: z.array(item),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  });
}

interface Listed {
  readonly id: string;
}

/** A page with its first and last id. */
export function listOf<T extends Listed>(data: readonly T[], hasMore: boolean) {
  return {
    object: 'list' as const,
    data: [...data],
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}

/** One page of items that are all there, oldest first. */
export function pageOf<T extends Listed>(
  items: readonly T[],
  {
    after,
    limit = 20,
    order = 'desc',
  }: { after?: string | undefined; limit?: number | undefined; order?: 'asc' | 'desc' | undefined },
) {
  const ordered = order === 'asc' ? items : items.toReversed();
  const from = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  return listOf(ordered.slice(from, from + limit), ordered.length > from + limit);
}
