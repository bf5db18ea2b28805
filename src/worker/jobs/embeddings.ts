import { textOf } from '../../shared/contract/message.ts';
import { cutText } from '../../shared/base/redact.ts';
import type { NumberedEntry } from '../../shared/contract/thread/thread.ts';
import { embedTexts } from './auxiliary-call.ts';
import type { PostRunWork } from './post-run-job.ts';

/** Entries at the end of a thread among which those of the run are. */
const maxEntries = 200;
const maxTextBytes = 24_000;

/** Vectors of what the user said last in the run and of what was answered. */
export const embedMessages: PostRunWork = async ({ job, call, deps, signal }) => {
  const { embedder, ports } = deps;
  if (!embedder) return undefined;
  const { tenant, threadId, agentId, runId } = job;
  const { entries } = await ports.threads.read(tenant, threadId, { limit: maxEntries, order: 'desc' });
  const said = entries.filter(({ entry }) => entry.runId === runId).flatMap(saidIn);
  const last = (['user', 'assistant'] as const).flatMap((role) => said.find((one) => one.role === role) ?? []);
  if (last.length === 0) return undefined;
  const texts = last.map(({ text }) => text);
  const vectors = await embedTexts(call, texts, embedder, deps, signal);
  const messages = last.map((one, index) => ({
    tenant,
    threadId,
    agentId,
    runId,
    ...one,
    vector: vectors[index] ?? [],
  }));
  await embedder.keep(messages, signal);
  return { type: 'thread.embedding_done', model: embedder.model, messages: messages.length };
};

function saidIn({ seq, entry }: NumberedEntry): { seq: number; role: 'user' | 'assistant'; text: string }[] {
  if (entry.t !== 'message' || entry.byRuntime || entry.message.role === 'tool') return [];
  const { message } = entry;
  const text = message.role === 'user' ? message.content : textOf(message);
  return text === '' ? [] : [{ seq, role: message.role, text: cutText(text, maxTextBytes) }];
}
