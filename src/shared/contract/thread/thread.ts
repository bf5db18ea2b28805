import { z } from 'zod';
import { defined } from '../../base/collections.ts';
import { errorCode, RunError, assertNever, errorInfo } from '../../base/errors.ts';
import { handoffFilterDescriptor } from '../handoff/handoff.ts';
import { publicId } from '../../base/ids.ts';
import { jsonText, storedJson } from '../../base/json.ts';
import {
  flowLabel,
  sensitivity,
  textPart,
  toolCallPart,
  toolMessage,
  userMessage,
  withShownCommentary,
  type Message,
} from '../message.ts';
import { microcents, runUsage } from '../money.ts';
import { postRunKind } from '../queues.ts';

export const threadVersion = 1;

/**
 * What a new run does when another one holds its thread.
 *
 * - queue: waits behind all others
 * - reject: does not wait
 * - interrupt: waits before all others, and the lock owner is to be cancelled
 * - rollback: the same, and the turn of the lock owner leaves no trace in the thread
 */
export const onBusy = z.enum(['queue', 'reject', 'interrupt', 'rollback']);
export type OnBusy = z.infer<typeof onBusy>;

/** Which thread is meant. A thread of another tenant is another thread. */
export interface ThreadRef {
  readonly tenant: string;
  readonly threadId: string;
}

/** What a provider keeps of a conversation, so that the next turn does not have to send it again. */
export const threadSession = z.object({
  provider: z.string(),
  model: z.string(),
  sessionToken: z.string().optional(),
  checkpointToken: z.string().optional(),
});
export type ThreadSession = Readonly<z.infer<typeof threadSession>>;

/** The mutable first record of a thread. It belongs to one agent for good. */
export const threadManifest = z.object({
  v: z.literal(threadVersion),
  threadId: publicId,
  agentId: publicId,
  session: threadSession.optional(),
  taskId: z.string().optional(),
  title: z.string().optional(),
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type ThreadManifest = Readonly<z.infer<typeof threadManifest>>;

/** The manifest, and where the thread stands. */
export interface ThreadInfo extends ThreadManifest {
  /** The run whose turn it is. */
  readonly lockOwner?: string;
  /** How many runs wait for it to end. */
  readonly waiting: number;
  /** That run waits for something outside. */
  readonly suspendedBy?: string;
  /** The number of the last entry, 0 before the first. Numbers may have gaps. */
  readonly lastSeq: number;
}

/** What a thread keeps of a message: the reasoning of a model is not part of it. */
const keptMessage = z.discriminatedUnion('role', [
  userMessage,
  z.object({
    role: z.literal('assistant'),
    parts: z.array(z.discriminatedUnion('type', [textPart, toolCallPart])),
    flow: flowLabel.optional(),
  }),
  toolMessage,
]);
export type ThreadMessage = z.infer<typeof keptMessage>;

const entryBase = { v: z.literal(threadVersion), runId: z.string(), at: z.string() };

/**
 * One entry of a thread's log, written by the run that holds it.
 *
 * - message: something that was said, by whom its role says. It is kept once per `key`, a user's message without one once per
 *   run. `byRuntime`: in the user's place, but no person said it; kept once only where it has a key.
 *   `emptyResponse`: the model answered, with nothing. `byCaller`: said before the input of the run, by the word of its caller
 * - handoff: another agent went on with the turn. What crossed is what the filter of `descriptor` lets through of the
 *   conversation up to here: that up to entry `began`, without what is of this run, then the user's message and what the
 *   run has said since. A later handoff of the run begins with what crossed at the one before. Kept once per `key`
 * - result: how the turn of a run ended
 * - summary: stands for all entries up to number `upTo` when the conversation is given to a model
 */
export const threadEntry = z.discriminatedUnion('t', [
  z.object({
    ...entryBase,
    t: z.literal('message'),
    key: z.string().optional(),
    byRuntime: z.literal(true).optional(),
    emptyResponse: z.literal(true).optional(),
    byCaller: z.literal(true).optional(),
    message: keptMessage,
  }),
  z.object({
    ...entryBase,
    t: z.literal('handoff'),
    key: z.string(),
    step: z.int().min(1),
    fromAgentId: publicId,
    toAgentId: publicId,
    descriptor: handoffFilterDescriptor,
    began: z.int().min(0),
    /** Stood for the beginning of the conversation, all but the last `kept` messages. */
    summary: z
      .object({
        text: z.string(),
        kept: z.int().min(0),
        sensitivity: sensitivity.optional(),
        flow: flowLabel.optional(),
      })
      .optional(),
    /** Of what crossed: SHA-256 of its canonical JSON. Absent: an older worker did it. */
    digest: z.string().optional(),
  }),
  z.object({
    ...entryBase,
    t: z.literal('result'),
    status: z.enum(['completed', 'degraded', 'blocked', 'failed', 'cancelled']),
    error: errorCode.optional(),
    costMicrocents: microcents,
    durationMs: z.int().min(0),
    steps: z.int().min(0),
    usage: runUsage.optional(),
  }),
  z.object({
    ...entryBase,
    t: z.literal('summary'),
    text: z.string(),
    upTo: z.int().min(0),
    /** How far what it was made from may travel. */
    sensitivity: sensitivity.optional(),
    /** What of it others brought. */
    flow: flowLabel.optional(),
  }),
]);
export type ThreadEntry = z.infer<typeof threadEntry>;
export type ThreadEntryOf<T extends ThreadEntry['t']> = Extract<ThreadEntry, { t: T }>;

/** An entry with its number in the log. */
export interface NumberedEntry {
  readonly seq: number;
  readonly entry: ThreadEntry;
}

/** Fields of the manifest that a write may change; null takes one away. */
export interface ThreadPatch {
  readonly session?: ThreadSession | null;
  readonly title?: string | null;
  readonly taskId?: string | null;
}

/** The name under which a message is kept only once; undefined for entries that are always written. */
export function onceKey(entry: ThreadEntry): string | undefined {
  if (entry.t === 'handoff') return entry.key;
  if (entry.t !== 'message') return undefined;
  if (entry.message.role !== 'user') return entry.key;
  return entry.key ?? (entry.byRuntime ? undefined : entry.runId);
}

/** Is this the message that a run was asked for with? */
export function isPrompt(entry: ThreadEntry): boolean {
  return entry.t === 'message' && entry.message.role === 'user' && entry.key === undefined && !entry.byRuntime;
}

/** The patch as fields of the manifest's hash, where an empty one is absent. */
export function patchFields({ session, title, taskId }: ThreadPatch): Record<string, string> {
  return {
    ...(session !== undefined && { session: session === null ? '' : jsonText(session) }),
    ...(title !== undefined && { title: title ?? '' }),
    ...(taskId !== undefined && { taskId: taskId ?? '' }),
  };
}

/** Reads a manifest back. Throws `run_state_malformed` or `run_state_version_unsupported`. */
export function manifestFromHash(hash: Readonly<Record<string, string>>): ThreadManifest {
  const name = `the manifest of thread ${hash['threadId'] ?? 'without an id'}`;
  checkVersion(Number(hash['v']), name);
  const { session, taskId, title, threadId, agentId, createdAt, updatedAt } = hash;
  try {
    return threadManifest.parse({
      v: threadVersion,
      threadId,
      agentId,
      createdAt,
      updatedAt,
      ...(session && { session: JSON.parse(session) as unknown }),
      ...(taskId && { taskId }),
      ...(title && { title }),
    });
  } catch (cause) {
    throw new RunError('run_state_malformed', `${name} cannot be read`, { cause });
  }
}

/** Reads an entry back. Throws `run_state_malformed` or `run_state_version_unsupported`. */
export function readThreadEntry(json: string, { threadId }: ThreadRef, seq: number): ThreadEntry {
  const name = `entry ${seq} of thread ${threadId}`;
  try {
    const value: unknown = storedJson(json);
    checkVersion((value as { v?: unknown } | null)?.v, name);
    return threadEntry.parse(value);
  } catch (cause) {
    if (cause instanceof RunError) throw cause;
    throw new RunError('run_state_malformed', `${name} cannot be read`, { cause });
  }
}

function checkVersion(v: unknown, name: string): void {
  if (v !== threadVersion) throw new RunError('run_state_version_unsupported', `${name} has version ${String(v)}`);
}

export function threadNotFound(threadId: string): RunError {
  return new RunError('not_found', `there is no thread ${threadId}`);
}

/** Why a thread cannot be removed. */
export function threadInUse(threadId: string, runs: readonly string[]): RunError {
  const [lockOwner = '', ...waiting] = runs;
  const behind = waiting.length > 0 ? `, and ${waiting.join(', ')} wait for it` : '';
  return new RunError('concurrent_run', `thread ${threadId} is in use: run ${lockOwner} holds it${behind}`, {
    details: { runs },
  });
}

/** What a thread keeps of a message: reasoning stays with the run, system text with the agent. Undefined: nothing. */
export function threadMessage(message: Message): ThreadMessage | undefined {
  switch (message.role) {
    case 'system':
      return undefined;
    case 'assistant': {
      const parts = withShownCommentary(message).parts.filter((part) => part.type !== 'reasoning');
      return parts.length === 0 ? undefined : defined({ role: 'assistant', parts, flow: message.flow });
    }
    case 'user':
    case 'tool':
      return message;
    default:
      return assertNever(message);
  }
}

export const threadEventVersion = 1;
/** Events that a thread keeps; the oldest go first. */
export const maxThreadEvents = 1_000;

/** What happens to a thread after the runs in it, beside its log. */
export const threadEventBody = z.discriminatedUnion('type', [
  z.object({ type: z.literal('thread.title_generated'), title: z.string() }),
  z.object({ type: z.literal('thread.embedding_done'), model: z.string(), messages: z.int().min(1) }),
  z.object({ type: z.literal('postrun.failed'), effect: postRunKind, error: errorInfo }),
]);
export type ThreadEventBody = z.infer<typeof threadEventBody>;

const envelope = z.object({
  v: z.literal(threadEventVersion),
  /** From 1 without gaps, by thread. */
  sequenceNumber: z.int().min(1),
  timestamp: z.string(),
  threadId: z.string(),
  agentId: z.string(),
  /** The run that it followed. */
  runId: z.string(),
});

export const threadEvent = z.intersection(envelope, threadEventBody);
export type ThreadEvent = z.infer<typeof threadEvent>;

/** Which run an event is about. */
export type ThreadEventOrigin = Readonly<Pick<ThreadEvent, 'agentId' | 'runId'>>;

/** Which events: numbers above `after`, at most `limit`. */
export interface ThreadEventsRange {
  readonly after?: number;
  readonly limit: number;
}

/** `more`: there are others beyond the last of these. */
export interface ThreadEventsPage {
  readonly events: readonly ThreadEvent[];
  readonly more: boolean;
}
