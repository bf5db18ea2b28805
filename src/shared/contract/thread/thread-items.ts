import { jsonOr } from '../../base/json.ts';
import { z } from 'zod';
import { defined } from '../../base/collections.ts';
import { assertNever, RunError } from '../../base/errors.ts';
import { inputFiles } from '../input-parts.ts';
import { flowLabel, sensitivity, strictestOf, textOf, type UserMessage, type ToolMessage } from '../message.ts';
import {
  threadSession,
  type ThreadEntryOf,
  type ThreadInfo,
  threadEntry,
  threadManifest,
  type NumberedEntry,
  type ThreadEntry,
  type ThreadManifest,
} from './thread.ts';

/** A thread as it is shown: without what only a provider can read. */
export const threadView = z.object({
  threadId: z.string(),
  agentId: z.string().describe('The agent that the thread belongs to.'),
  title: z.string().optional(),
  taskId: z.string().optional(),
  session: threadSession
    .pick({ provider: true, model: true })
    .optional()
    .describe('Who keeps the conversation as well, so that it is not sent again.'),
  createdAt: z.string(),
  updatedAt: z.string(),
  lockOwner: z.string().optional().describe('The run whose turn it is.'),
  waiting: z.int().describe('How many runs wait for it to end.'),
  suspendedBy: z.string().optional().describe('That run, when it waits for something outside.'),
  lastSeq: z.int().describe('The number of the last entry, 0 before the first.'),
});
export type ThreadView = Readonly<z.infer<typeof threadView>>;

const itemBase = {
  seq: z.int().optional().describe('The number of its message in the log. A message may show as several items.'),
  runId: z.string(),
  at: z.string(),
  live: z.literal(true).optional().describe('From the run that is running: not in the log yet, and without a number.'),
};

const labels = {
  sensitivity: sensitivity.optional().describe('How far it may travel. Absent: `public`.'),
  sources: flowLabel.shape.sources
    .optional()
    .describe('Where it comes from, as far as a model wrote it after it had read what is not trusted.'),
};

/**
 * What was said and done in a thread, one thing each.
 *
 * - message: what a person said (`user`), what we said in a person's place (`system`), or a final answer (`assistant`)
 * - assistant_text: what a model said beside the calls that it made
 * - tool_use, tool_result: a call and what came of it. `input` is the model's own text where that is not JSON
 */
export const threadItem = z.discriminatedUnion('kind', [
  z.object({
    ...itemBase,
    kind: z.literal('message'),
    role: z.enum(['user', 'assistant', 'system']),
    text: z.string(),
    files: inputFiles.optional().describe('That came with it: never their bytes.'),
    ...labels,
  }),
  z.object({ ...itemBase, kind: z.literal('assistant_text'), text: z.string() }),
  z.object({ ...itemBase, kind: z.literal('tool_use'), toolCallId: z.string(), name: z.string(), input: z.unknown() }),
  z.object({
    ...itemBase,
    kind: z.literal('tool_result'),
    toolCallId: z.string(),
    name: z.string(),
    content: z.string(),
    isError: z.boolean(),
    ...labels,
    trust: z.string().optional().describe('Its trust class. Absent: the result of a tool of the operator.'),
  }),
]);
export type ThreadItem = z.infer<typeof threadItem>;

export function viewOfThread(info: ThreadInfo): ThreadView {
  const { v: _, session, ...rest } = info;
  return { ...rest, ...(session && { session: { provider: session.provider, model: session.model } }) };
}

/** A message as items, in order. Without a number it is live. */
export function itemsOf(entry: ThreadEntryOf<'message'>, seq: number | undefined): ThreadItem[] {
  const { runId, at, message, byRuntime } = entry;
  const base = { ...(seq === undefined ? { live: true as const } : { seq }), runId, at };
  switch (message.role) {
    case 'user':
      return [
        defined({
          ...base,
          kind: 'message',
          role: byRuntime ? 'system' : 'user',
          text: message.content,
          files: message.files,
          ...labelsIn(message),
        }),
      ];
    case 'tool': {
      const { toolCallId, toolName, content, isError = false, trust } = message;
      const shown = { toolCallId, name: toolName, content, isError, ...labelsIn(message), trust };
      return [defined({ ...base, kind: 'tool_result', ...shown })];
    }
    case 'assistant': {
      const calls = message.parts.filter((part) => part.type === 'tool_call');
      const text = textOf(message);
      if (calls.length === 0) return [{ ...base, kind: 'message', role: 'assistant', text }];
      const said: ThreadItem[] = text === '' ? [] : [{ ...base, kind: 'assistant_text', text }];
      const uses = calls.map(({ id, name, args }): ThreadItem => {
        return { ...base, kind: 'tool_use', toolCallId: id, name, input: jsonOr(args, args) };
      });
      return [...said, ...uses];
    }
    default:
      return assertNever(message);
  }
}

/** Without the parts that others brought: an export has them. */
function labelsIn({
  sensitivity: tier,
  flow,
}: UserMessage | ToolMessage): Partial<Pick<Result, 'sensitivity' | 'sources'>> {
  const sources = flow?.sources.length ? flow.sources : undefined;
  return defined({ sensitivity: strictestOf([tier, flow?.sensitivity]), sources });
}

type Result = Extract<ThreadItem, { kind: 'tool_result' }>;

/** The first line of an export: the thread, without what only a provider can read. */
export const exportedThread = threadManifest.omit({ session: true });

/** A line of an export: the thread first, then every entry as it is kept, with its number. */
export type ThreadExportLine =
  | ({ readonly t: 'thread' } & Omit<ThreadManifest, 'session'>)
  | ({ readonly seq: number } & ThreadEntry);

/** A thread as it was exported. */
export interface ExportedThread {
  readonly manifest: ThreadManifest;
  readonly entries: readonly NumberedEntry[];
}

const firstLine = exportedThread.extend({ t: z.literal('thread') });
const numbered = z.object({ seq: z.int().min(1) });

/** Reads an export, as text or as its lines. Throws `validation` with the number of the first line that is none. */
export function readExport(exported: string | Iterable<unknown>): ExportedThread {
  const lines = typeof exported === 'string' ? linesOf(exported) : [...exported];
  const [first, ...rest] = lines;
  const { t: _, ...manifest } = parsed(firstLine, first, 1);
  const entries = rest.map((line, at) => ({
    seq: parsed(numbered, line, at + 2).seq,
    entry: parsed(threadEntry, line, at + 2),
  }));
  return { manifest, entries };
}

function linesOf(text: string): unknown[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line, at) => {
      try {
        return JSON.parse(line) as unknown;
      } catch (cause) {
        throw notALine(at + 1, cause);
      }
    });
}

function parsed<T>(schema: z.ZodType<T>, line: unknown, number: number): T {
  const read = schema.safeParse(line);
  if (!read.success) throw notALine(number, read.error);
  return read.data;
}

function notALine(number: number, cause: unknown): RunError {
  return new RunError('validation', `line ${number} is not one of an exported thread`, { cause });
}
