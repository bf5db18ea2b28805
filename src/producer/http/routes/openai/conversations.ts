import { z } from 'zod';
import { RunError } from '../../../../shared/base/errors.ts';
import { newRunId, publicId } from '../../../../shared/base/ids.ts';
import { hasFiles } from '../../../../shared/contract/input-parts.ts';
import { parseAs } from '../../../../shared/base/problems.ts';
import type { HistoryMessage } from '../../../../shared/contract/request/history.ts';
import { safeInput } from '../../../client/accept/validate.ts';
import type { MillraceClient } from '../../../client/facade.ts';
import { withoutNulls } from '../../../openai/fields.ts';
import { itemsOfHistory, itemsOfThread, listedItem, type ListedItem } from '../../../openai/items.ts';
import { inputItem, saidInInput, textIn, type Said } from '../../../openai/messages.ts';
import { metadata } from '../../../openai/shared-fields.ts';
import { secondsOf } from '../../../openai/answer.ts';
import type { App, Services } from '../../app.ts';
import { route } from '../../openapi.ts';
import { wireOf } from './asking.ts';
import { answerErrorsAsOpenAi, wireErrors } from './error-shape.ts';
import { listOf, listShape, pageOf, pageParams } from './shapes.ts';

const maxItems = 100;

const conversation = z.object({
  id: z.string(),
  object: z.literal('conversation'),
  created_at: z.int(),
  metadata: z.record(z.string(), z.string()),
});

const newConversation = z.strictObject({
  items: z.array(inputItem).max(maxItems).optional().describe('What was said before the first response in it.'),
  metadata: metadata.optional(),
});
const changes = z.strictObject({ metadata });
const idParam = z.object({ id: z.string().describe('The id of a conversation, or of any thread.') });

const createRoute = route('write', {
  operationId: 'createConversation',
  summary: 'Begin a conversation',
  description:
    'The API of OpenAI, for its clients: a conversation is a thread, which the first response in it makes. What is said here is kept for 30 days after the last use of the conversation.',
  body: newConversation,
  response: { 200: conversation, ...wireErrors },
});

const getRoute = route('read', {
  operationId: 'getConversation',
  summary: 'Read a conversation',
  params: idParam,
  response: { 200: conversation, ...wireErrors },
});

const updateRoute = route('write', {
  operationId: 'updateConversation',
  summary: 'Change the metadata of a conversation',
  params: idParam,
  body: changes,
  response: { 200: conversation, ...wireErrors },
});

const deleteRoute = route('write', {
  operationId: 'deleteConversation',
  summary: 'Delete a conversation',
  description: 'With its thread. While a run has the lock of that or waits for it: 409 `concurrent_run`.',
  params: idParam,
  response: {
    200: z.object({ id: z.string(), object: z.literal('conversation.deleted'), deleted: z.literal(true) }),
    ...wireErrors,
  },
});

const itemsRoute = route('read', {
  operationId: 'listConversationItems',
  summary: 'List the messages of a conversation',
  description: 'Calls of tools and their results are not in it: `GET /v1/threads/{id}/messages` has them.',
  params: idParam,
  querystring: pageParams,
  response: { 200: listShape(listedItem), ...wireErrors },
});

export function conversationRoutes(app: App, services: Services): void {
  answerErrorsAsOpenAi(app, services);
  app.post('/v1/conversations', createRoute, async ({ mill, body }) => {
    const asked = parse(newConversation, body ?? {});
    const id = `conv_${newRunId(Date.now())}`;
    const items = saidInInput(asked.items ?? []).flatMap(historyOf);
    const stored = { createdAt: new Date().toISOString(), metadata: asked.metadata ?? {}, items };
    await wireOf(mill).writeConversation(id, stored);
    return shown(id, stored);
  });
  app.get('/v1/conversations/:id', getRoute, async ({ mill, params: { id } }) => shown(id, await found(mill, id)));
  app.post('/v1/conversations/:id', updateRoute, async ({ mill, params: { id }, body }) => {
    const { metadata: changed } = parse(changes, body);
    const stored = { ...(await found(mill, id)), metadata: changed };
    await wireOf(mill).writeConversation(id, stored);
    return shown(id, stored);
  });
  app.delete('/v1/conversations/:id', deleteRoute, async ({ mill, params: { id } }) => {
    const deleted = await mill.threads.delete(checkId(id)).then(
      () => true,
      (error: unknown) => {
        if (isMissing(error)) return false;
        throw error;
      },
    );
    const forgotten = await wireOf(mill).removeConversation(id);
    if (!deleted && !forgotten) throw missing(id);
    return { id, object: 'conversation.deleted' as const, deleted: true as const };
  });
  app.get('/v1/conversations/:id/items', itemsRoute, async ({ mill, params: { id }, query }) => {
    const stored = await wireOf(mill).readConversation(checkId(id));
    try {
      return await pageOfThread(mill, id, query);
    } catch (error) {
      if (!isMissing(error)) throw error;
      if (!stored) throw missing(id);
      return pageOf(itemsOfHistory('msg_new', stored.items), query);
    }
  });
}

type Page = z.output<typeof pageParams>;

/** Reads on until the page is full: messages of tools are none of its items. */
async function pageOfThread(mill: MillraceClient, id: string, { after, limit = 20, order = 'desc' }: Page) {
  const from = after === undefined ? undefined : Number(/^msg_(\d{1,15})$/.exec(after)?.[1] ?? Number.NaN);
  if (Number.isNaN(from)) throw new RunError('validation', 'after is not the id of an item of this conversation');
  const items: ListedItem[] = [];
  for (let next = from; ;) {
    const range = next === undefined ? {} : order === 'asc' ? { after: next } : { before: next };
    const page = await mill.threads.messages(id, { ...range, order, limit: 100 });
    items.push(...itemsOfThread(page.messages));
    next = page.next;
    if (next === undefined || items.length > limit) break;
  }
  return listOf(items.slice(0, limit), items.length > limit);
}

type Known = Omit<z.output<typeof conversation>, 'id' | 'object' | 'created_at'> & {
  readonly createdAt: string;
  readonly items?: readonly HistoryMessage[];
};

function shown(id: string, { createdAt, metadata: said }: Known) {
  return { id, object: 'conversation' as const, created_at: secondsOf(createdAt), metadata: { ...said } };
}

/** What is known of it, or of a thread with this id. Throws `not_found`. */
async function found(mill: MillraceClient, id: string) {
  const stored = await wireOf(mill).readConversation(checkId(id));
  if (stored) return stored;
  const { createdAt } = await mill.threads.get(id).catch((error: unknown) => {
    throw isMissing(error) ? missing(id) : error;
  });
  return { createdAt, metadata: {}, items: [] };
}

function checkId(id: string): string {
  if (publicId.safeParse(id).success) return id;
  throw missing(id);
}

function missing(id: string): RunError {
  return new RunError('not_found', `there is no conversation ${id}`);
}

function isMissing(error: unknown): boolean {
  return error instanceof RunError && error.code === 'not_found';
}

function historyOf(message: Said): HistoryMessage[] {
  const { role } = message;
  const content = textIn(message);
  if (hasFiles(message.parts)) throw notInItems('a conversation keeps texts; give files with a response');
  if (role === 'system' || role === 'developer')
    throw notInItems('a conversation keeps no instructions; give them with each response');
  if (content === '') return [];
  return [role === 'assistant' ? { role, content } : { role: 'user', content }];
}

function notInItems(message: string): RunError {
  return new RunError('validation', `items: ${message}`, { details: [{ path: 'items', message }] });
}

function parse<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  return parseAs(schema, withoutNulls(safeInput(body)), 'the request is not valid');
}
