import { textOf } from '../../shared/contract/message.ts';
import { cutText } from '../../shared/base/redact.ts';
import type { NumberedEntry } from '../../shared/contract/thread/thread.ts';
import { embedTexts } from './auxiliary-call.ts';
import type { PostRunWork } from './post-run-job.ts';

/** Entries at the end of a thread in which those of the run are searched. */
const maxEntries = 200;
const maxTextBytes = 24_000;

/** Vectors of the last user message of the run and of its answer. */
export const embedMessages: PostRunWork = async ({ job, call, deps, signal }) => {
  const { embedder, ports } = deps;
  if (!embedder) return undefined;
  const { tenant, threadId, agentId, runId } = job;
  const { entries } = await ports.threads.read(tenant, threadId, { limit: maxEntries, order: 'desc' });
  const messages = entries.filter(({ entry }) => entry.runId === runId).flatMap(messageIn);
  const last = (['user', 'assistant'] as const).flatMap((role) => messages.find((one) => one.role === role) ?? []);
  if (last.length === 0) return undefined;
  const texts = last.map(({ text }) => text);
  const vectors = await embedTexts(call, texts, embedder, deps, signal);
  const embedded = last.map((one, index) => ({
    tenant,
    threadId,
    agentId,
    runId,
    ...one,
    vector: vectors[index] ?? [],
  }));
  await embedder.keep(embedded, signal);
  return { type: 'thread.embedding_done', model: embedder.model, messages: embedded.length };
};

function messageIn({ seq, entry }: NumberedEntry): { seq: number; role: 'user' | 'assistant'; text: string }[] {
  if (entry.t !== 'message' || entry.byRuntime || entry.message.role === 'tool') return [];
  const { message } = entry;
  const text = message.role === 'user' ? message.content : textOf(message);
  return text === '' ? [] : [{ seq, role: message.role, text: cutText(text, maxTextBytes) }];
}
